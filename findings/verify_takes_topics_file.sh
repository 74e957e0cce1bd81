#!/usr/bin/env bash
# kafka-reassign-partitions --verify takes a file of --generate, and deletes every broker's rates.
#
# Apache Kafka 4.4.0 (org.apache.kafka:kafka-tools). The tool has two JSON formats: the plan (--execute, --verify)
# and the topics to move (--generate, {"version":1,"topics":[{"topic":"t"}]}). --execute refuses the second one as
# an empty plan. --verify takes it for a plan without partitions: it verifies nothing, exits 0, and then clears the
# throttles, as it does after a plan that is complete: leader.replication.throttled.rate and
# follower.replication.throttled.rate of all brokers, whoever set them and whatever still moves under them.
#
# Seen: exit 0, "Clearing broker-level throttles on broker 1", and the rate of 1000000 is gone.
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
run() { java -Xmx320m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp 'jars/*' "$@"; }
run kafka.tools.StorageTool format --standalone -t FindingFindingFinding0 -c node.properties > format.log 2>&1
java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'jars/*' kafka.Kafka node.properties > node.log 2>&1 &
node=$!

configs() { run org.apache.kafka.tools.ConfigCommand --bootstrap-server "$broker" --entity-type brokers --entity-name 1 "$@" 2> /dev/null; }
tool() { run org.apache.kafka.tools.reassign.ReassignPartitionsCommand --bootstrap-server "$broker" "$@" 2> /dev/null; }
for _ in 1 2 3 4 5; do
	if configs --alter --add-config follower.replication.throttled.rate=1000000 > set.log; then break; fi
done
configs --describe | grep 'follower.replication.throttled.rate=1000000'

echo '{"version":1,"topics":[{"topic":"t"}]}' > topics.json
status=0
tool --execute --reassignment-json-file topics.json > executed.log || status=$?
echo "--execute: exit $status"
[ "$status" -ne 0 ]

status=0
tool --verify --reassignment-json-file topics.json > verified.log || status=$?
cat verified.log
echo "--verify: exit $status"
[ "$status" -eq 0 ]
grep -q 'Clearing broker-level throttles on broker 1' verified.log
if configs --describe | grep 'follower.replication.throttled.rate=1000000'; then
	echo "changed: the rate is still there" >&2
	exit 1
fi
echo "the rate is gone"
