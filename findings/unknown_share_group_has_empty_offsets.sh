#!/usr/bin/env bash
# The offsets of a share group that does not exist are described without an error.
#
# Apache Kafka 4.4.0 (org.apache.kafka:kafka-clients). DescribeShareGroupOffsets answers no error and no partition for a
# group that never was. So a mistyped name looks like a group that has read nothing. ShareGroupDescribe answers
# GROUP_ID_NOT_FOUND for the same name.
#
# Seen: Admin.listShareGroupOffsets gives {never={}}; Admin.describeShareGroups fails with GroupIdNotFoundException.
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

cat > Unknown.java <<'JAVA'
import java.util.*;
import org.apache.kafka.clients.admin.*;

public class Unknown {
    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            var wanted = Map.of("never", new ListShareGroupOffsetsSpec());
            System.out.println("offsets: " + admin.listShareGroupOffsets(wanted).all().get());
            try {
                System.out.println("group: " + admin.describeShareGroups(List.of("never")).all().get());
            } catch (Exception error) {
                System.out.println("group: " + error.getCause().getClass().getSimpleName());
            }
        }
    }
}
JAVA
run Unknown.java "$broker" 2> unknown.log | tee seen.txt || { cat unknown.log; exit 1; }
diff - seen.txt <<'SEEN'
offsets: {never={}}
group: GroupIdNotFoundException
SEEN
