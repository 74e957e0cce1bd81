#!/bin/sh
# Ensures that a real Kafka can run: installs a JDK (17 or newer) and Maven if they are missing.
# See ensuring.sh.
set -eu
case "$0" in */*) . "${0%/*}/ensuring.sh" ;; *) . ./ensuring.sh ;; esac

NEEDED=17

java_release() {
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

java_program() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

compiler() {
    if [ -n "${JAVA_HOME:-}" ]; then
        command -v "$JAVA_HOME/bin/javac"
    else
        command -v javac
    fi
}

missing() {
    java=$(java_program)
    if [ -z "$java" ]; then
        echo "a JDK, $NEEDED or newer (no java was found)"
    else
        release=$(java_release "$java")
        if [ "${release:-0}" -lt "$NEEDED" ]; then
            echo "a JDK, $NEEDED or newer ($java is ${release:-of an unknown version})"
        elif ! compiler >/dev/null; then
            echo "a JDK, $NEEDED or newer ($java is only a runtime, without javac)"
        fi
    fi
    if ! command -v mvn >/dev/null; then
        echo "Maven (no mvn was found)"
    fi
}

# Prints the command that installs both with this system's package manager; nothing if none is known.
install_line() {
    if command -v apt-get >/dev/null; then
        get="apt-get install -y --no-install-recommends maven"
        echo "apt-get update && { $get openjdk-17-jdk-headless || $get openjdk-21-jdk-headless; }"
    elif command -v dnf >/dev/null; then
        echo "dnf install -y java-21-openjdk-devel maven"
    elif command -v yum >/dev/null; then
        echo "yum install -y java-17-openjdk-devel maven"
    elif command -v apk >/dev/null; then
        echo "apk add openjdk17-jdk maven"
    elif command -v brew >/dev/null; then
        echo "brew install openjdk@21 maven"
    fi
}

ensure "A real Kafka on this machine" \
    "Install them, and make sure that java and mvn are on the PATH." \
    "If another java comes first on the PATH, set JAVA_HOME to the new one."
