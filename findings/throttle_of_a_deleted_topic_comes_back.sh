#!/usr/bin/env bash
# A deleted topic's list of throttled replicas throttles the next topic of its name, which has no settings.
#
# Apache Kafka 4.4.0 (org.apache.kafka:kafka-tools). follower.replication.throttled.replicas of a topic goes with the
# topic, as kafka-configs shows: the one that is created under the same name has no settings. A follower that
# restarts throttles that topic all the same, as long as its broker has a follower.replication.throttled.rate. A topic with
# another name, and the same replicas, data and settings, is not throttled.
#
# Seen: topic t with the list "*" is deleted and created again, with an empty config. Broker 2 restarts 30 MB behind,
# with a rate of a byte a second. The other topic has broker 2 in its ISR at once; t does not.
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

topics() { run org.apache.kafka.tools.TopicCommand --bootstrap-server "${broker[1]}" "$@" 2> /dev/null; }
configs() { run org.apache.kafka.tools.ConfigCommand --bootstrap-server "${broker[1]}" "$@" 2> /dev/null; }
isr() { topics --describe --topic "$1" | tee described.log | sed -nE 's/.*Isr: ([0-9,]+).*/\1/p'; }
for _ in 1 2 3 4 5 6; do
	if topics --create --topic t --replica-assignment 1:2; then break; fi # once both are registered
done
configs --alter --entity-type brokers --entity-name 2 --add-config follower.replication.throttled.rate=1
configs --alter --entity-type topics --entity-name t --add-config 'follower.replication.throttled.replicas=*'
topics --delete --topic t
for name in t other; do
	for _ in 1 2 3; do
		if topics --create --topic $name --replica-assignment 1:2; then break; fi # once the first t is gone
	done
done
configs --describe --entity-type topics --entity-name t | tee settings.txt
[ "$(cat settings.txt)" = 'Dynamic configs for topic t are:' ]

{ kill "${node[2]}" && wait "${node[2]}" || true; } 2> /dev/null
for name in t other; do
	run org.apache.kafka.tools.ProducerPerformance --topic $name --num-records 30000 --record-size 1000 --throughput -1 \
		--producer-props "bootstrap.servers=${broker[1]}" > produced.log 2>&1
done
start 2
for _ in {1..30}; do
	if [ "$(isr other)" = 1,2 ]; then break; fi
done
echo "in sync after the restart: other $(isr other), t $(isr t)"
[ "$(isr other)" = 1,2 ]
[ "$(isr t)" = 1 ]
