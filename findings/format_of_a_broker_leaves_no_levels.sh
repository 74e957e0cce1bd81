#!/usr/bin/env bash
# kafka-storage format of Kafka 4.4 takes a release for a broker, says so, and writes it nowhere.
#
# Apache Kafka 4.4.0 and 4.3.1 (org.apache.kafka:kafka_2.13). Up to 4.3, format writes the feature levels into
# bootstrap.checkpoint of every node. 4.4 writes no such file: a controller has them in the first checkpoint of
# __cluster_metadata-0, which 4.3 wrote too, and a broker has meta.properties only. --release-version is accepted for a
# broker all the same, and named in the output. Whoever reads a node's levels from bootstrap.checkpoint finds none.
#
# Seen: with --release-version 4.2, both versions print "with metadata.version 4.2-IV1". For a broker 4.3.1 leaves
# meta.properties and bootstrap.checkpoint, 4.4.0 only meta.properties.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

for version in 4.3.1 4.4.0; do
	mkdir $version
	cat > $version/pom.xml <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
POM
	mvn -q -B -f $version/pom.xml dependency:copy-dependencies -DoutputDirectory=jars > mvn.log 2>&1 || { cat mvn.log; exit 1; }
done

formatted() { # version, roles, options: formats a node anew and lists what it has left
	local version=$1 role=$2 listener=PLAINTEXT
	shift 2
	if [ "$role" = controller ]; then listener=CONTROLLER; fi
	rm -rf data
	cat > node.properties <<SETTINGS
process.roles=$role
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=$listener://127.0.0.1:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/data
SETTINGS
	java -cp "$version/jars/*" kafka.tools.StorageTool format -t FindingFindingFinding0 -c node.properties "$@" > format.log 2>&1 ||
		{ cat format.log; exit 1; }
	grep 'with metadata.version 4.2-IV1' format.log > /dev/null
	echo "$version $role:" $(cd data && find . -type f -printf '%P\n' | sort)
}

first=__cluster_metadata-0/00000000000000000000-0000000000.checkpoint
for version in 4.3.1 4.4.0; do
	formatted $version controller --standalone --release-version 4.2
	formatted $version broker --no-initial-controllers --release-version 4.2
done | tee seen.txt
diff - seen.txt <<SEEN
4.3.1 controller: $first bootstrap.checkpoint meta.properties
4.3.1 broker: bootstrap.checkpoint meta.properties
4.4.0 controller: $first meta.properties
4.4.0 broker: meta.properties
SEEN
