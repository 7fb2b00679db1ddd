#!/bin/sh
# Fetches the jars of the broker that the integration tests start, once, and prints their folder:
#
#   export KAFKA_LIBS=$(integration/kafka-libs.sh)
#
# The folder: the first argument, else $KAFKA_LIBS, else tallystick/kafka-libs in the user's cache.
# Needs Java 17 or newer and Maven (Debian: apt-get install -y openjdk-17-jre-headless maven).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
libs=${1:-${KAFKA_LIBS:-${XDG_CACHE_HOME:-$HOME/.cache}/tallystick/kafka-libs}}
# The folder is complete only when it holds a copy of the pom that filled it: a cut download, or
# another version of the pom, starts over.
if ! cmp -s "$here/pom.xml" "$libs/pom.xml"; then
	command -v mvn >/dev/null || {
		echo "kafka-libs: mvn not found; install it (Debian: apt-get install -y maven), or set KAFKA_LIBS to a folder with the jars of a Kafka distribution" >&2
		exit 1
	}
	rm -rf "$libs.new"
	mkdir -p "$libs.new"
	libs_abs=$(cd "$libs.new" && pwd)
	mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$libs_abs" >&2
	cp "$here/pom.xml" "$libs.new/pom.xml"
	rm -rf "$libs"
	mv "$libs.new" "$libs"
fi
# Kafka's command line tools are no part of a broker, whose class archive holds for exactly the jars above.
if [ -z "$(ls "$libs"/kafka-tools-[0-9]*.jar "$libs"/tools/kafka-tools-[0-9]*.jar 2>/dev/null)" ]; then
	libs=$(cd "$libs" && pwd)
	version=$(sed -n '/<artifactId>kafka_/,/<version>/s:.*<version>\(.*\)</version>.*:\1:p' "$here/pom.xml")
	(cd / && mvn -q -B dependency:copy "-Dartifact=org.apache.kafka:kafka-tools:$version" "-DoutputDirectory=$libs/tools" >&2)
fi
cd "$libs" && pwd
