import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a group, each in a thread: Members BOOTSTRAP TOPIC GROUP ASSIGNOR. Each line of stdin is
 * `join NAME`, `leave NAME` or `vanish NAME` (without a word to the coordinator). Prints what happens
 * to the members, as ../rebalance_events.py reads it. Ends when stdin does and all have left.
 */
public final class Members {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] words) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] command = line.split(" ");
            if (command[0].equals("join")) {
                Member member = new Member(command[1], words);
                MEMBERS.put(command[1], member);
                member.start();
            } else {
                MEMBERS.get(command[1]).end(command[0]);
            }
        }
        for (Member member : MEMBERS.values()) {
            member.join();
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String topic;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>(); // not yet committed
        private volatile String end = "";

        Member(String name, String[] words) {
            super(name);
            topic = words[1];
            Properties settings = new Properties();
            settings.put("bootstrap.servers", words[0]);
            settings.put("group.id", words[2]);
            settings.put("client.id", name);
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + words[3]);
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", false);
            settings.put("session.timeout.ms", 10_000);
            settings.put("heartbeat.interval.ms", 500);
            settings.put("max.poll.interval.ms", 60_000);
            settings.put("fetch.max.wait.ms", 100);
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        void end(String how) {
            end = how;
        }

        @Override
        public void run() {
            try {
                consumer.subscribe(List.of(topic), this);
                long due = System.nanoTime();
                while (end.isEmpty()) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        tell("read", record.partition() + ":" + record.offset());
                        TopicPartition place = new TopicPartition(topic, record.partition());
                        next.put(place, new OffsetAndMetadata(record.offset() + 1));
                    }
                    if (System.nanoTime() >= due) {
                        commit();
                        due = System.nanoTime() + 500_000_000L;
                    }
                }
                var operation = end.equals("vanish")
                        ? CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP
                        : CloseOptions.GroupMembershipOperation.LEAVE_GROUP;
                consumer.close(CloseOptions.groupMembershipOperation(operation));
                tell("left", "-");
            } catch (RuntimeException error) {
                tell("failed", error.toString().replace(' ', '_').replace('\n', '_'));
            }
        }

        private synchronized void tell(String event, String details) {
            String said = details.isEmpty() ? "-" : details;
            System.out.println(System.nanoTime() + " " + getName() + " " + event + " " + said);
        }

        /** A refusal costs nothing: whoever has the partitions next reads those records again. */
        private void commit() {
            if (next.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync(next);
            } catch (KafkaException refused) {
                return;
            }
            tell("committed", next.entrySet().stream()
                    .map(entry -> entry.getKey().partition() + ":" + entry.getValue().offset())
                    .collect(Collectors.joining(",")));
            next.clear();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            tell("assigned", listed(places));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            commit();
            next.keySet().removeAll(places);
            tell("revoked", listed(places));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            next.clear();
            tell("lost", listed(places));
        }

        private static String listed(Collection<TopicPartition> places) {
            return places.stream().map(place -> Integer.toString(place.partition())).collect(Collectors.joining(","));
        }
    }
}
