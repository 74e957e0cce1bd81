#!/usr/bin/env bash
# confluent-kafka prints a topic id that kafka-topics does not take.
#
# confluent-kafka 2.16.1 with Apache Kafka 4.4.0 (org.apache.kafka:kafka-tools). A topic id is 16 bytes. Kafka's tools
# and logs have it in URL-safe base64, with - and _. confluent-kafka's Uuid prints it in standard base64, with + and /,
# so that about every second id reads differently, and only those do.
#
# Seen: of 20 topics some have a + or / in str(description.topic_id). kafka-topics --describe --topic-id refuses such
# an id ("Illegal base64 character 2f" or "2b"), and finds the topic with - and _ instead.
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

python3 -m venv env
env/bin/pip install -q confluent-kafka==2.16.1 > pip.log 2>&1 || { cat pip.log; exit 1; }
cat > ids.py <<'PYTHON'
import sys

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

names = [f"t{n}" for n in range(20)]
admin = AdminClient({"bootstrap.servers": sys.argv[1], "log_level": 0})
for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
    made.result()
described = admin.describe_topics(TopicCollection(names))
ids = [str(each.result().topic_id) for each in described.values()]
print(next(topic_id for topic_id in ids if "+" in topic_id or "/" in topic_id))
PYTHON
theirs=$(env/bin/python ids.py "$broker")
ours=$(tr '+/' '-_' <<< "$theirs")
echo "confluent-kafka: $theirs"

status=0
run org.apache.kafka.tools.TopicCommand --bootstrap-server "$broker" --describe --topic-id "$theirs" > theirs.log 2>&1 || status=$?
grep 'Illegal base64 character 2[bf]' theirs.log
[ "$status" -ne 0 ]
run org.apache.kafka.tools.TopicCommand --bootstrap-server "$broker" --describe --topic-id "$ours" 2> ours.log | tee ours.txt
grep -q "TopicId: $ours" ours.txt
