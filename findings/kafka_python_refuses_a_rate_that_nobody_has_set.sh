#!/usr/bin/env bash
# kafka-python cannot set a broker's replication rate, unless somebody has set it before.
#
# kafka-python 3.0.12 with Apache Kafka 4.4.0. By default (raise_on_unknown), KafkaAdminClient.alter_configs raises
# ValueError for a name that DescribeConfigs does not list for the resource. Brokers do not list
# follower.replication.throttled.rate while it has no value, though they take it. So the same call works on one broker
# and raises on another, and needs raise_on_unknown=False to work on every one.
#
# Seen: ValueError at first; no error with raise_on_unknown=False; no error without it from then on.
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
env/bin/pip install -q kafka-python==3.0.12 > pip.log 2>&1 || { cat pip.log; exit 1; }
cat > rate.py <<'PYTHON'
import sys
import time

from kafka.admin import ConfigResource, KafkaAdminClient


def change(**options):
    resource = ConfigResource("BROKER", "1", configs={"follower.replication.throttled.rate": "1000000"})
    try:
        print(options, admin.alter_configs([resource], **options))
    except ValueError as error:
        print(options, "ValueError:", error)


admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])
change()
change(raise_on_unknown=False)
time.sleep(2)  # until the broker has learnt of it
change()
admin.close()
PYTHON
env/bin/python rate.py "$broker" 2> rate.log | tee seen.txt || { cat rate.log; exit 1; }
diff - seen.txt <<'SEEN'
{} ValueError: Unrecognized configs: {'follower.replication.throttled.rate'}
{'raise_on_unknown': False} {'broker': {'1': 'OK'}}
{} {'broker': {'1': 'OK'}}
SEEN
