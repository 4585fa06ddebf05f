"""docs/seed-map.md is true: every row's names, settings, defaults and tests exist, and no item of the documents is
left out."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import workfleet
from workfleet.cli.main import _commands
from workfleet.settings.names import FALLBACKS, env_name, file_key
from workfleet.settings.sections import BUILT_IN
from workfleet.settings.tree import default_text, find, leaves, tree

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "seed-map.md").read_text("utf-8")
HEAD = ["theirs", "ours", "setting", "default", "shown by"]
SETTINGS = tree(BUILT_IN)
LATER = {
    "The job engine: nothing lost, nothing twice, and fast",
    "A fleet on Redis, in BullMQ's own layout",
    "Schedules and locks: once per slot, everywhere, through every clock change",
    "Process pools: CPU work that cannot take the worker down",
    "Seeing it: metrics, health, logs and traces",
    "an issue to come",
}


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    line: int
    theirs: str
    ours: str
    setting: str
    default: str
    shown: str


def _rows() -> Iterator[Row]:
    for number, line in enumerate(DOCUMENT.splitlines(), start=1):
        if line.startswith("|") and not line.startswith("|---"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 5, f"line {number} has {len(cells)} cells"
            if cells != HEAD:
                yield Row(number, *(cell.replace("\\|", "|") for cell in cells))


ROWS = list(_rows())


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_there_are_rows() -> None:
    assert len(ROWS) > 150


def failing(check: Callable[[Row], None]) -> list[str]:
    """What is wrong, of all rows."""
    found = []
    for row in ROWS:
        try:
            check(row)
        except (AssertionError, OSError) as error:
            found.append(f"line {row.line} ({row.theirs}): {error}")
    return found


def test_what_is_ours_exists() -> None:
    def check(row: Row) -> None:
        for span in spans(row.ours):
            _check(span)

    assert failing(check) == []


def _check(span: str) -> None:
    if span.startswith("workfleet "):
        assert span.split()[1] in _commands().commands, span
    elif span.isupper() or re.fullmatch(r"[A-Z_]+=\S+", span):
        assert span.partition("=")[0] in _variables(), span
    elif span.startswith(('"', ".", "tests/", "docs/", "examples/")):
        assert not span.startswith(("tests/", "docs/", "examples/")) or (ROOT / span).exists(), span
    else:
        name = re.fullmatch(r"@?([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?", span)
        assert name is not None, f"{span} is neither a name, a command, a setting, text in quotes nor a file"
        found = _resolve(name[1])
        for keyword in re.findall(r"(\w+)=", name[2] or ""):
            assert keyword in _keywords(found), f"{name[1]} has no option {keyword}"


def _resolve(dotted: str) -> Any:
    first, *rest = dotted.split(".")
    if first in ("None", "True", "False"):
        return None
    assert first in workfleet.__all__, f"workfleet.{first} is not public"
    found: Any = getattr(workfleet, first)
    for name in rest:
        fields = {field.name for field in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
        assert hasattr(found, name) or name in fields, f"{dotted} does not exist"
        found = getattr(found, name, None)
    return found


def _keywords(found: Any) -> set[str]:
    """The keyword arguments of a callable, those of a typed `**options` included."""
    if hasattr(found, "__struct_fields__"):
        return set(found.__struct_fields__)
    made = found.__init__ if inspect.isclass(found) else found
    names: set[str] = set()
    for parameter in inspect.signature(made).parameters.values():
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if unpacked is None:
            names.add(parameter.name)
        else:
            names |= set(vars(sys.modules[made.__module__])[unpacked[1]].__optional_keys__)
    return names


@cache
def _variables() -> set[str]:
    return {env_name(SETTINGS, leaf.path) for leaf in leaves(SETTINGS)} | set(FALLBACKS)


def test_every_variable_is_known_or_dropped() -> None:
    def check(row: Row) -> None:
        for span in spans(row.theirs):
            if re.fullmatch(r"(WORKER|REDIS|DB|APP)_[A-Z_]+", span):
                assert span in _variables() or row.shown.startswith("dropped because"), span

    assert failing(check) == []


def test_every_default_is_the_real_one() -> None:
    assert failing(_check_default) == []


def _check_default(row: Row) -> None:
    if row.setting != "–":
        (key,) = spans(row.setting)
        found = [leaf for leaf in leaves(SETTINGS) if file_key(SETTINGS, leaf.path) == key]
        assert len(found) == 1, f"there is no setting {key}"
        assert find(SETTINGS, found[0].path) is not None
        assert row.default == default_text(SETTINGS, found[0])
    elif row.default != "–":
        option = re.fullmatch(r"@?([\w.]+)\((\w+)=.*\)", spans(row.ours)[0])
        assert option is not None, "a default is that of a setting, or of the option that is named first"
        assert row.default == str(inspect.signature(_resolve(option[1])).parameters[option[2]].default)


def test_what_shows_each_row_exists() -> None:
    assert failing(_check_shown) == []


def _check_shown(row: Row) -> None:
    if row.shown.startswith("dropped because "):
        assert len(row.shown) > len("dropped because ") + 10
    elif row.shown.startswith("arrives with "):
        assert any(row.shown.endswith(f"“{title}”") for title in LATER), row.shown
    else:
        named = spans(row.shown)
        assert named, "a row is shown by tests, dropped because of something, or arrives with an issue"
        for test in named:
            file, _, function = test.partition("::")
            base = ROOT / "src/workfleet/testing" if file.startswith("contracts/") else ROOT / "tests"
            assert function in _tests(base / file), test


@cache
def _tests(file: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    return {node.name for node in nodes if isinstance(node, functions) and node.name.startswith("test_")}


# What the two documents name: their options, variables, decorators, services, files and checklist items.
ITEMS = """
WORKER_DEFAULT_QUEUE WORKER_QUEUE_ENABLED WORKER_SCHEDULER_ENABLED WORKER_TIMEZONE WORKER_HEARTBEAT_ENABLED
REDIS_ENABLED REDIS_HOST REDIS_PORT REDIS_USER REDIS_PASSWORD REDIS_TLS REDIS_URL
DB_TYPE DB_HOST DB_PORT DB_NAME DB_USER DB_PASS APP_VERSION NODE_ENV
NestFactory.createApplicationContext() loadEnv() .env .env.local registerPluginConfig() OnModuleInit
OnApplicationBootstrap OnApplicationShutdown SIGINT SIGTERM logger DatabaseModule TokenModule WorkerJobsModule
SchedulerModule.forRoot() SchedulerModule.forFeature() SchedulerModuleOptions SchedulerFeatureOptions
enabled enableQueueing queueConnection queues defaultQueueName defaultTimezone logRegisteredJobs defaultJobOptions
defaultJobOptions.enabled defaultJobOptions.preventOverlap defaultJobOptions.retries defaultJobOptions.retryDelayMs
defaultJobOptions.timeoutMs defaultJobOptions.maxRandomDelayMs jobProviders
ScheduledJob name description cron intervalMs runOnStart preventOverlap retries retryDelayMs timeoutMs
maxRandomDelayMs queueName queueJobName queueJobOptions ScheduledJobOptions DiscoveredScheduledJob
SchedulerJobDescriptor SchedulerQueueJobInput QueueWorker QueueJobHandler QueueWorkerHost Job
SchedulerService.listJobs SchedulerService.triggerNow SchedulerService.enqueue SchedulerQueueService
SchedulerDiscoveryService SchedulerJobRegistryService SchedulerJobRunnerService
id providerName methodName scheduleType running
worker.startup.scheduler worker.startup worker.heartbeat.scheduler worker.heartbeat WorkerLifecycleProcessor timestamp
Dockerfile Deployment replicas Service Ingress resources docker-build-publish-*.yml deploy-do-*.yml
ScheduleModule.forRoot() BullModule.forRoot() forRootAsync useFactory inject ConfigService RedisService
ConfigModule schema sources validateOnStartup env prefix LoggerModule level transports
TitanRedisModule clients namespace url db TitanLockModule defaultTtl keyPrefix defaultRetries defaultRetryDelay
redisClientName timezone persistence.enabled persistence.provider RedisPersistenceProvider metrics.enabled
metrics.interval maxConcurrent shutdownTimeout
ProcessManagerModule isolation transport restartPolicy.enabled restartPolicy.maxRestarts restartPolicy.window
restartPolicy.delay restartPolicy.backoff.type restartPolicy.backoff.initial restartPolicy.backoff.max
restartPolicy.backoff.factor resources.maxMemory resources.maxCpu resources.timeout monitoring.healthCheck.interval
monitoring.healthCheck.timeout monitoring.metrics monitoring.tracing advanced.gracefulShutdownTimeout
pm.poolMinWorkers pm.poolMaxWorkers
TitanMetricsModule appName collection.enabled collection.interval collection.process collection.system
collection.custom storage.type storage.batchSize storage.flushInterval retention.maxAge retention.cleanupInterval
TitanHealthModule enableMemoryIndicator enableEventLoopIndicator enableRedisIndicator redisClient timeout enableCaching
version
Schedulable Cron CronExpression WithDistributedLock LOCK_SERVICE_TOKEN IDistributedLockService __lockService__
LOGGER_SERVICE_TOKEN ILoggerModule Injectable Inject Process Public OnShutdown Trace Metric CircuitBreaker threshold
Idempotent key ttl PM_MANAGER_TOKEN ProcessManager pm.pool() size pool.scale(n) pool.resize(input) @Service
""".split()


def test_no_item_is_left_out() -> None:
    named = {span.removeprefix("@") for row in ROWS for span in spans(row.theirs)}
    assert [item for item in ITEMS if item.removeprefix("@") not in named] == []


def test_the_production_checklist_is_whole() -> None:
    section = DOCUMENT.partition("## Production checklist")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| (?!theirs)", section, flags=re.MULTILINE)) == 10


def test_few_rows_wait() -> None:
    waiting = [row for row in ROWS if row.shown.startswith("arrives with ")]
    assert len(waiting) < len(ROWS) / 6
