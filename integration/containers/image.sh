#!/usr/bin/env bash
# Builds a container image of Apache Kafka without any registry and prints its name:
#
#   export KAFKA_IMAGE=$(integration/containers/image.sh)
#
# Who can pull apache/kafka needs none of this: the tests do it by themselves.
#
# The image has no base: a few of this machine's tools with the libraries that they load, a Java runtime by jlink, Kafka's
# jars by kafka-libs.sh, and the layout that apache/kafka has (image/). Its tag is a digest of all that, so that an image
# that is there already is used again. Needs Linux, an engine that the docker command reaches, a JDK 17 or newer with jlink
# (Debian: apt-get install -y openjdk-17-jdk-headless), and root, since the image's files have owners.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kafka=4.4.0

die() { printf 'image: %s\n' "$*" >&2; exit 1; }
command -v docker >/dev/null || die "docker not found: install it (Debian: apt-get install -y docker.io)"
command -v jlink >/dev/null || die "jlink not found: install a JDK (Debian: apt-get install -y openjdk-17-jdk-headless)"

# What the layout's scripts and testcontainers' starter call.
tools=(bash sh sed sleep cat env mkdir rm ls hostname id)
# java.desktop is there for java.beans alone, which log4j needs; its native libraries stay out.
modules=java.base,java.desktop,java.logging,java.management,java.naming,java.rmi,java.scripting,java.security.jgss
modules+=,java.security.sasl,java.sql,java.xml,jdk.crypto.ec,jdk.management,jdk.unsupported,jdk.zipfs
jdk=$(dirname "$(dirname "$(readlink -f "$(command -v jlink)")")")

inputs() { cat "${BASH_SOURCE[0]}" "$here/../pom.xml"; find "$here/image" -type f | LC_ALL=C sort | xargs cat; "$jdk/bin/java" -version 2>&1; }
image=tallystick/apache-kafka:$kafka-$(inputs | sha256sum | cut -c1-12)
if docker image inspect "$image" >/dev/null 2>&1; then
	echo "$image"
	exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
started=$EPOCHREALTIME
step() { awk -v a="$started" -v b="$EPOCHREALTIME" -v s="$1" 'BEGIN { printf "image: %-8s %5.1f s\n", s, b - a }' >&2; started=$EPOCHREALTIME; }

# copy_needed FILE: the shared libraries that FILE loads, at the paths where its loader looks for them.
copy_needed() {
	local lib
	{ ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r lib; do
		[ "$lib" = "$1" ] || [ -e "$root$lib" ] || install -D "$(readlink -f "$lib")" "$root$lib"
	done
}

mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},opt/kafka/{libs,config},etc,tmp,root,var/lib/kafka/data,mnt/shared/config,proc,sys,dev}
chmod 1777 "$root/tmp"
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
cp -r "$here/image/." "$root"
printf 'root:x:0:0:root:/root:/bin/bash\nappuser:x:1000:1000::/tmp:/bin/bash\n' >"$root/etc/passwd"
printf 'root:x:0:\nappuser:x:1000:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
for tool in "${tools[@]}"; do
	path=$(readlink -f "$(command -v "$tool")")
	install -D "$path" "$root/usr/bin/$tool"
	copy_needed "$path"
done
step tools

libs=$("$here/../kafka-libs.sh")
cp "$libs"/*.jar "$root/opt/kafka/libs"
[ -e "$root/opt/kafka/libs/kafka_2.13-$kafka.jar" ] || die "$libs has no Kafka $kafka: raise the version here together with pom.xml"
step jars

"$jdk/bin/jlink" --module-path "$jdk/jmods" --add-modules "$modules" --strip-debug --no-header-files --no-man-pages \
	--exclude-files 'glob:/java.desktop/lib/*.so' --output "$root/opt/java" >"$work/jlink.log" 2>&1 || die "jlink: $(cat "$work/jlink.log")"
find "$root/opt/java" -name '*.so' -o -path '*/bin/*' -type f | while read -r file; do copy_needed "$file"; done
ln -s /opt/java/bin/java "$root/usr/bin/java"
"$root/opt/java/bin/java" -Xshare:dump >"$work/cds.log" 2>&1 || echo "image: no class data archive, so starts are slower: $(tail -1 "$work/cds.log")" >&2
step runtime

chown -R 1000:0 "$root/etc/kafka" "$root/opt/kafka" "$root/var/lib/kafka" "$root/mnt/shared/config"
tar -C "$root" -c . | docker import \
	--change 'ENV PATH=/usr/bin:/usr/sbin LANG=C.UTF-8 CLUSTER_ID=bG9jYWwta2Fma2Etb25lMQ' \
	--change 'EXPOSE 9092' --change 'USER appuser' --change 'CMD ["/etc/kafka/docker/run"]' - "$image" >/dev/null
step import
echo "$image"
