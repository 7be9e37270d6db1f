import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with Kafka Streams, at least once: a repartition topic and a changelog are the broker's
 * to make. Runs until its stdin ends: WordCount BOOTSTRAP APPLICATION INPUT OUTPUT STATE-FOLDER
 */
public final class WordCount {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("application.id", words[1]);
        settings.put("state.dir", Path.of(words[4]).toString());
        settings.put("processing.guarantee", "at_least_once");
        settings.put("replication.factor", "3");
        settings.put("num.stream.threads", "2");
        settings.put("num.standby.replicas", "0");
        settings.put("commit.interval.ms", "200");
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.heartbeat.interval.ms", "500");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        KeyValueMapper<String, String, String> byWord = (key, word) -> word;
        builder.<String, String>stream(words[2])
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy(byWord)
                .count()
                .toStream()
                .mapValues((word, count) -> word + "=" + count)
                .to(words[3], Produced.with(Serdes.String(), Serdes.String()));
        CountDownLatch failed = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) {
                failed.countDown();
            }
        });
        streams.start();
        while (System.in.read() >= 0) {
            continue;
        }
        streams.close(Duration.ofSeconds(30));
        System.exit(failed.getCount() == 0 ? 1 : 0);
    }
}
