import java.io.File;
import java.util.TreeMap;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Prints what Apache Kafka reads from a log folder's small text files, one fact a line:
 * "epoch FOLDER EPOCH START", "id FOLDER TOPIC_ID", "offset FILE TOPIC-PARTITION OFFSET".
 */
public final class ReadCheckpoints {
    public static void main(String[] args) throws Exception {
        File logFolder = new File(args[0]);
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        for (File folder : new TreeMap<>(children(logFolder)).values()) {
            if (!folder.isDirectory() || !new File(folder, "partition.metadata").exists()) {
                continue;
            }
            File epochs = new File(folder, "leader-epoch-checkpoint");
            for (var entry : new LeaderEpochCheckpointFile(epochs, failures).read()) {
                System.out.println(
                    "epoch " + folder.getName() + " " + entry.epoch() + " " + entry.startOffset());
            }
            var metadata = new PartitionMetadataFile(new File(folder, "partition.metadata"), failures);
            System.out.println("id " + folder.getName() + " " + metadata.read().topicId());
        }
        for (String name : new String[] {
            "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
            "log-start-offset-checkpoint", "cleaner-offset-checkpoint"}) {
            File file = new File(logFolder, name);
            if (file.exists()) {
                new OffsetCheckpointFile(file, failures).read().forEach((partition, offset) ->
                    System.out.println("offset " + name + " " + partition + " " + offset));
            }
        }
    }

    private static TreeMap<String, File> children(File folder) {
        TreeMap<String, File> found = new TreeMap<>();
        for (File child : folder.listFiles()) {
            found.put(child.getName(), child);
        }
        return found;
    }
}
