#!/usr/bin/env bash
# A second target for a partition that moves is answered without an error, and the first one is carried out.
#
# Apache Kafka 4.4.0 (org.apache.kafka:kafka-clients). While partition 0 moves from broker 1 to 2, its replicas are
# listed as 2,1: the target, and what is to be removed. AlterPartitionReassignments with the target 2,1, to keep broker 1
# after all, equals that list. The controller answers no error and changes nothing: broker 1 is still removed. The same
# target, sent when nothing moves, adds broker 1.
#
# Seen: [1] -> [2] is under way; the alter to [2,1] succeeds; the move ends with [2]. The same alter then ends with [2,1].
set -euo pipefail

version=4.4.0
folder=$(mktemp -d)
declare -A node=()
finish() {
	for each in "${node[@]}"; do { kill "$each" && wait "$each" || true; } 2> /dev/null; done
	rm -rf "$folder"
}
trap finish EXIT
cd "$folder"

cat > pom.xml <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars > mvn.log 2>&1 || { cat mvn.log; exit 1; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
run() { java -Xmx320m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp 'jars/*' "$@"; }
controller=127.0.0.1:$(free_port)
declare -A broker=()
start() {
	java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'jars/*' kafka.Kafka "$1.properties" >> "node$1.log" 2>&1 &
	node[$1]=$!
}
for id in 1 2; do
	broker[$id]=127.0.0.1:$(free_port)
	roles=broker listeners=PLAINTEXT://${broker[$id]} first=--no-initial-controllers
	if [ "$id" = 1 ]; then roles=broker,controller listeners=$listeners,CONTROLLER://$controller first=--standalone; fi
	cat > "$id.properties" <<SETTINGS
process.roles=$roles
node.id=$id
controller.quorum.bootstrap.servers=$controller
controller.listener.names=CONTROLLER
listeners=$listeners
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/data$id
SETTINGS
	run kafka.tools.StorageTool format $first -t FindingFindingFinding0 -c "$id.properties" > "format$id.log" 2>&1
	start $id
done
for id in 1 2; do
	for _ in {1..300}; do
		if (: > "/dev/tcp/${broker[$id]/:/\/}") 2> /dev/null; then break; fi
		sleep 1 # until it listens
	done
done

cat > Targets.java <<'JAVA'
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;

public class Targets {
    static final TopicPartition MOVED = new TopicPartition("t", 0);
    static Admin admin;

    public static void main(String[] args) throws Exception {
        Map<String, Object> cluster = Map.of("bootstrap.servers", args[0]);
        admin = Admin.create(cluster);
        while (admin.describeCluster().nodes().get().size() < 2) Thread.sleep(500);
        admin.createTopics(List.of(new NewTopic("t", Map.of(0, List.of(1))))).all().get();
        var bytes = new org.apache.kafka.common.serialization.ByteArraySerializer();
        try (var producer = new KafkaProducer<>(cluster, bytes, bytes)) { // 20 MB, at a byte a second: it stays under way
            for (int n = 0; n < 200; n++) producer.send(new ProducerRecord<>("t", new byte[100_000]));
        }
        configure("2", ConfigResource.Type.BROKER, "follower.replication.throttled.rate", AlterConfigOp.OpType.SET, "1");
        configure("t", ConfigResource.Type.TOPIC, "follower.replication.throttled.replicas", AlterConfigOp.OpType.SET, "*");

        alter(2);
        alter(2, 1);
        configure("2", ConfigResource.Type.BROKER, "follower.replication.throttled.rate", AlterConfigOp.OpType.DELETE, "");
        end();
        alter(2, 1);
        end();
        admin.close();
    }

    static void configure(String name, ConfigResource.Type type, String key, AlterConfigOp.OpType op, String value) throws Exception {
        var change = List.of(new AlterConfigOp(new ConfigEntry(key, value), op));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), (Collection<AlterConfigOp>) change)).all().get();
    }

    static void alter(Integer... target) throws Exception {
        admin.alterPartitionReassignments(Map.of(MOVED, Optional.of(new NewPartitionReassignment(List.of(target))))).all().get();
        var listed = admin.listPartitionReassignments().reassignments().get().get(MOVED);
        String seen = listed == null ? "nothing moves" : "adding " + listed.addingReplicas() + " removing " + listed.removingReplicas();
        System.out.println("altered to " + List.of(target) + ": " + seen);
    }

    static void end() throws Exception {
        while (!admin.listPartitionReassignments().reassignments().get().isEmpty()) Thread.sleep(500);
        Thread.sleep(2000); // until brokers' metadata shows it
        var found = admin.describeTopics(List.of("t")).allTopicNames().get().get("t").partitions().get(0).replicas();
        System.out.println("ended with " + found.stream().map(Node::id).toList());
    }
}
JAVA
run Targets.java "${broker[1]}" 2> targets.log | tee seen.txt || { cat targets.log; exit 1; }
diff - seen.txt <<'SEEN'
altered to [2]: adding [2] removing [1]
altered to [2, 1]: adding [2] removing [1]
ended with [2]
altered to [2, 1]: adding [1] removing []
ended with [2, 1]
SEEN
