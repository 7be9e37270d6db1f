import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** Kafka's own clients against a cluster. ../clients.py says what the words mean. */
public final class Client {
    private static final String FILLER = "replog ".repeat(20);

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "version" -> System.out.println(AppInfoParser.getVersion());
            case "produce" -> produce(words);
            case "consume" -> consume(words);
            case "admin" -> admin(words);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static Properties settings(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private static void told(int partition, long offset, int number) {
        System.out.println(partition + " " + offset + " " + number);
    }

    private static void produce(String[] words) throws Exception {
        String topic = words[2];
        int first = Integer.parseInt(words[3]);
        int end = first + Integer.parseInt(words[4]);
        int perSecond = Integer.parseInt(words[7]);
        Properties settings = settings(words[1]);
        settings.put("acks", "all");
        settings.put("compression.type", words[5]);
        settings.put("enable.idempotence", words[6].equals("idempotent"));
        settings.put("linger.ms", 5);
        AtomicReference<Exception> failed = new AtomicReference<>();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            int size = perSecond > 0 ? Math.max(1, perSecond / 50) : 500;
            long due = System.nanoTime();
            for (int number = first; number < end; number++) {
                int sent = number;
                String value = String.format("%08d %s", number, FILLER);
                producer.send(
                        new ProducerRecord<>(topic, Integer.toString(number), value),
                        (answer, error) -> {
                            if (error != null) {
                                failed.set(error);
                            } else {
                                told(answer.partition(), answer.offset(), sent);
                            }
                        });
                if (perSecond > 0 && (number - first) % size == size - 1) {
                    due += 1_000_000_000L * size / perSecond;
                    Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
                }
            }
        }
        if (failed.get() != null) {
            throw failed.get();
        }
    }

    private static void consume(String[] words) {
        int count = Integer.parseInt(words[4]);
        Properties settings = settings(words[1]);
        settings.put("group.id", words[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("session.timeout.ms", 6000);
        settings.put("heartbeat.interval.ms", 500);
        Set<Integer> seen = new HashSet<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(words[2]));
            while (seen.size() < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    int number = Integer.parseInt(record.value().substring(0, 8));
                    seen.add(number);
                    told(record.partition(), record.offset(), number);
                }
                if (seen.size() < count) {
                    consumer.commitAsync();
                }
            }
            consumer.commitSync();
        }
    }

    private static void admin(String[] words) throws Exception {
        String topic = words[2];
        String data = words[3];
        String group = words[4];
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        List<TopicPartition> places =
                IntStream.range(0, 3).mapToObj(p -> new TopicPartition(data, p)).toList();
        try (Admin admin = Admin.create(settings(words[1]))) {
            Callable<String> retention = () ->
                    admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
            Callable<Integer> partitions = () ->
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            Map<String, Callable<?>> steps = new LinkedHashMap<>();
            steps.put("cluster", () -> admin.describeCluster().nodes().get().size());
            steps.put("create", () -> {
                NewTopic wanted = new NewTopic(topic, 3, (short) 3).configs(Map.of("retention.ms", "123456"));
                return ok(admin.createTopics(List.of(wanted)).all());
            });
            steps.put("describe", () -> soon(3, partitions));
            steps.put("config", retention);
            steps.put("alter", () -> {
                ConfigEntry entry = new ConfigEntry("retention.ms", "654321");
                Collection<AlterConfigOp> change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
                return retention.call();
            });
            steps.put("grow", () -> {
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
                return soon(5, partitions);
            });
            steps.put("groups", () -> admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)));
            steps.put("group", () -> admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState());
            steps.put("offsets", () -> {
                ListConsumerGroupOffsetsResult found = admin.listConsumerGroupOffsets(group);
                return found.partitionsToOffsetAndMetadata().get().values().stream().mapToLong(o -> o.offset()).sum();
            });
            steps.put("ends", () -> {
                Map<TopicPartition, OffsetSpec> asked =
                        places.stream().collect(Collectors.toMap(place -> place, place -> OffsetSpec.latest()));
                return admin.listOffsets(asked).all().get().values().stream().mapToLong(o -> o.offset()).sum();
            });
            steps.put("delete-records", () -> {
                TopicPartition place = places.get(0);
                return admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(5)))
                        .lowWatermarks().get(place).get().lowWatermark();
            });
            steps.put("delete-group", () -> ok(admin.deleteConsumerGroups(List.of(group)).all()));
            steps.put("delete", () -> ok(admin.deleteTopics(List.of(topic)).all()));
            for (Map.Entry<String, Callable<?>> step : steps.entrySet()) {
                System.out.println(step.getKey() + " " + step.getValue().call());
            }
        }
    }

    private static String ok(Future<?> answer) throws Exception {
        answer.get();
        return "ok";
    }

    /** Asks until the answer is the wanted one, as brokers learn of a change one after the other. */
    private static int soon(int wanted, Callable<Integer> ask) throws Exception {
        long limit = System.nanoTime() + 10_000_000_000L;
        int found = ask.call();
        while (found != wanted && System.nanoTime() < limit) {
            Thread.sleep(50);
            found = ask.call();
        }
        return found;
    }
}
