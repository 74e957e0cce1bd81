#!/usr/bin/env bash
# DescribeConfigs shows a list of throttled replicas without the blanks that SUBTRACT needs.
#
# Apache Kafka 4.4.0 (org.apache.kafka:kafka-clients). follower.replication.throttled.replicas is a list. Its stored text
# keeps a blank after a comma, and the entry then begins with it: " 0:2". DescribeConfigs shows the list with the blanks
# trimmed. The text that it shows, given to SUBTRACT (IncrementalAlterConfigs), is answered without an error and takes
# nothing out. Only the entry with its blank does, which no answer of the cluster shows.
#
# Seen: set to "0:1, 0:2", shown as 0:1,0:2; SUBTRACT 0:2 leaves 0:1,0:2; SUBTRACT " 0:2" leaves 0:1.
set -euo pipefail

version=4.4.0
folder=$(mktemp -d)
node=
finish() {
	[ -z "$node" ] || { kill "$node" && wait "$node" || true; } 2> /dev/null
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
broker=127.0.0.1:$(free_port)
controller=127.0.0.1:$(free_port)
cat > node.properties <<SETTINGS
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$broker,CONTROLLER://$controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/data
offsets.topic.replication.factor=1
SETTINGS
run kafka.tools.StorageTool format --standalone -t FindingFindingFinding0 -c node.properties > format.log 2>&1
java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'jars/*' kafka.Kafka node.properties > node.log 2>&1 &
node=$!
for _ in {1..300}; do
	if (: > "/dev/tcp/${broker/:/\/}") 2> /dev/null; then break; fi
	sleep 1 # until it listens
done

cat > Change.java <<'JAVA'
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;

public class Change {
    static final String LIST = "follower.replication.throttled.replicas";
    static final ConfigResource TOPIC = new ConfigResource(ConfigResource.Type.TOPIC, "t");

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.createTopics(List.of(new NewTopic("t", 1, (short) 1))).all().get();
            change(admin, AlterConfigOp.OpType.SET, "0:1, 0:2");
            change(admin, AlterConfigOp.OpType.SUBTRACT, "0:2");
            change(admin, AlterConfigOp.OpType.SUBTRACT, " 0:2");
        }
    }

    static void change(Admin admin, AlterConfigOp.OpType op, String value) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(LIST, value), op);
        admin.incrementalAlterConfigs(Map.of(TOPIC, List.of(change))).all().get();
        Thread.sleep(1000); // until the broker that is asked has learnt of it
        String shown = admin.describeConfigs(List.of(TOPIC)).all().get().get(TOPIC).get(LIST).value();
        System.out.println(op + " \"" + value + "\": shown as \"" + shown + "\"");
    }
}
JAVA
run Change.java "$broker" 2> change.log | tee seen.txt || { cat change.log; exit 1; }
diff - seen.txt <<'SEEN'
SET "0:1, 0:2": shown as "0:1,0:2"
SUBTRACT "0:2": shown as "0:1,0:2"
SUBTRACT " 0:2": shown as "0:1"
SEEN
