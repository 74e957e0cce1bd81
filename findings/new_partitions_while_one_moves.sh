#!/usr/bin/env bash
# kafka-topics --alter --partitions gives new partitions more replicas than the topic has while one of it moves.
#
# Apache Kafka 4.4.0 (org.apache.kafka:kafka-tools). CreatePartitions without an assignment takes the number of
# replicas of one of the topic's partitions. While that one is being reassigned, its replica list holds those to be added and those to
# be removed together, so new partitions get as many replicas as that longer list. They keep them when the move is
# over or is cancelled: partitions of one topic then differ in their replication factor, and nothing says so.
#
# Seen: topic t with one replica; partition 0 moves from broker 1 to 2 (listed as 2,1); partition 1, made meanwhile,
# has two replicas; after the cancel, partition 0 has one again and partition 1 still two.
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
	java -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'jars/*' kafka.Kafka "$id.properties" > "node$id.log" 2>&1 &
	node[$id]=$!
done

topics() { run org.apache.kafka.tools.TopicCommand --bootstrap-server "${broker[1]}" "$@" 2> /dev/null; }
reassign() { run org.apache.kafka.tools.reassign.ReassignPartitionsCommand --bootstrap-server "${broker[1]}" "$@" 2> /dev/null; }
replicas() { topics --describe --topic t | tee described.log | sed -nE "s/.*Partition: $1[[:space:]]+Leader: [0-9]+[[:space:]]+Replicas: ([0-9,]+).*/\1/p"; }
for _ in 1 2 3 4 5 6; do
	if topics --create --topic probe --replica-assignment 1:2; then break; fi # once both are registered
done
topics --create --topic t --replica-assignment 1
[ "$(replicas 0)" = 1 ]

# 30 MB under a throttle of a byte a second: the move stays under way.
run org.apache.kafka.tools.ProducerPerformance --topic t --num-records 30000 --record-size 1000 --throughput -1 \
	--producer-props "bootstrap.servers=${broker[1]}" > produced.log 2>&1
echo '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}' > plan.json
reassign --execute --throttle 1 --reassignment-json-file plan.json > executed.log || { cat executed.log; exit 1; }
reassign --list
topics --alter --topic t --partitions 2
echo "while partition 0 moves: partition 0 on $(replicas 0), partition 1 on $(replicas 1)"
[[ $(replicas 0) == *,* ]] && [[ $(replicas 1) == *,* ]]

reassign --cancel --reassignment-json-file plan.json > cancelled.log
echo "after the cancel: partition 0 on $(replicas 0), partition 1 on $(replicas 1)"
[ "$(replicas 0)" = 1 ]
[[ $(replicas 1) == *,* ]]
