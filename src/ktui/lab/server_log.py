"""The log settings of a lab's brokers, and the log lines that explain a failure."""

from __future__ import annotations

import re
from pathlib import Path

_PATTERN = "%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n"

_LOG4J2 = f"""\
Configuration:
  status: ERROR
  Appenders:
    Console:
      name: out
      PatternLayout:
        pattern: "{_PATTERN}"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: out
    Logger:
      - name: kafka.server.KafkaRaftServer
        level: INFO
"""

_RELOAD4J = f"""\
log4j.rootLogger=WARN, out
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern={_PATTERN}
"""

_ERROR = re.compile(r"\b(ERROR|FATAL)\b|Exception\b|Error\b|Caused by:")
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_TAIL_BYTES = 64 * 1024


def write_settings(folder: Path, kafka_version: str) -> str:
    """Write the log settings for this Kafka version, and return the JVM flag that names them."""
    if kafka_version.startswith("3."):
        path = folder / "log4j.properties"
        path.write_text(_RELOAD4J)
        return f"-Dlog4j.configuration=file:{path}"
    path = folder / "log4j2.yaml"
    path.write_text(_LOG4J2)
    return f"-Dlog4j2.configurationFile={path}"


def error_lines(log: Path, *, most: int = 6) -> tuple[str, ...]:
    """Return the last error lines of a log; its very last lines if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    errors = [line for line in lines if _ERROR.search(line)]
    return tuple((errors or lines)[-most:])
