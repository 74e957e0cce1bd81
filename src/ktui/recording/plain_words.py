"""Words that do not identify a cluster: those of ktui's, Kafka's and sockets' messages.

Free texts of a redacted recording keep these words and figures; every other word is hidden. A word
missing here costs readers some meaning, but reveals no secret.
"""

from __future__ import annotations

_WORDS = """
a abandon abort abortable aborted about above absent accept acceptability acceptable accepted access
acknowledgement acks active actively actually add added adding address adds administrative after
again against agree ahead aim algorithm alive all allocation allowed alone already also alter
alterconfigs altered altering alterpartition alters among an and another answer answered answers any
anything anywhere api append appends are arrived as asc asked asking assigned assignment assignor
associated assumed at attempt attempted attempts auth authenticated authentication authority
authorization authorized
auto.leader.rebalance.enable available avoid back backslash backslashes batch batched be because
been before begin beginning begins begun behind being believes belongs below between bind blocked
body bootstrap both break bring broker brokers budget budget_shared building but by byte bytes
bytes_s called came can canary cancel cancelled cancels cannot cant carries carry catch caught
cause causing certain certificate change changed changes channels character characters check checked
checksum choice cleared client clients closed closing cluster code come comes comma command commands
commas commit commits common communication compared compares compatible complete completed
compression concurrent config configurable configuration configure configured conflict confluent
connecting connection considered consumer contains context continue continued control controller
controllers convert coordinator copied copies copy cordoned correct corrupt could count counts
create created creating credential criteria ctrl ctrl-c current currently cut cuts damaged data date
days dead decision default delegation delete deleted deleting deletion delivery desc describe
describeconfigs described describing deserialization details deterministic device did died differ
different digits dir directory dirs disabled disconnect disconnected disconnection disk disks do
doctor does doesn done double down dropping dt due duplicate during each earlier econnrefused
econnreset effect either elapsed elect elected electing election elects eligible else elsewhere
empty enabled enables encountered encrypted end ended endpoint ends engine enough entering entries
env environment eof eofs epoch equal errno error errorcode escape etc event events ever every
exceeded exceeds exception execute exist exists expected expired extra facing factor factors fail
failed failing fails failure fall false far feature features fenced fences fetch fetches fetching
fewer figure figures file finalized finish firewalls first fit fits flag flight flying folder
followed follower.replication.throttled.rate follower.replication.throttled.replicas followers
follows for forbidden force foreign form format forwarding found four fresh fri from fs full further
future gaps gate gated gates gave gb generation gentle get gib give given go goal goes gone good
grant greater group gssapi guaranteed guard had hand handshake hanging happen has hash have head
health heartbeat heartbeats held hence here high hold holds host how https i id identification ids
if ignored illegal illegally immediate in in-sync inbound incompatible inconsistent increasing
indicates ineligible install instance instead insync integer inter internal interrupt interrupted
into invalid is isr it its itself join joined joins journal journals json jsonl kafka kb keep keeps
kept key keys keystore keytool kib kind kip-435 know known knows ktui lag large larger last late
later lead leader leader.replication.throttled.rate leader.replication.throttled.replicas leaders
leadership leads least leave leaves led left less letters lift lifted like likely limit limits line
list listener listing lists live load loading local locate location lock locked locks log login logs
long long-first longer look looks lookup lost low lower made maintained make malformed mapping mark
match matches max maximum may mb mean meant meanwhile mechanism meet member membership memory
mention message messages metadata metrics mib microseconds middle min min.insync.replicas minimum
minute mismatch mismatched missing mode mon monotonically more most mostly mounts move moved
movements moves moving ms much must name named names need needed needs negative nested network never
new newer no nobody node non none nor not nothing now nul null number oauth object objective occurs
of off offline offset offsets old older on once one ones ongoing only op open opened opens operation
operations operator options or order org original other others otherwise our ours out outage
outdated outside over overloaded oversize own owned owner ownership owns package parameters part
particular partition partitions pass passed password path pause paused peak peer pem per permission
permitted pid place plain plaintext plan plan_sha256 planned points policy poll polls port position
preferred primary principal printed private proc process processed produce producer producerid
producers progress prometheus proposed protocol protocols provided providers provides push put puts
question queue queued quota quotes rack racks raise raised range rate rates rather re-elected
reached read read-only reading reads ready reason reassign reassigned reassigning reassignment
reassignments reassigns rebalance rebalancing received receiving recent recipient record recorded
recording recordings records recovered recovering recovery redaction referred refused registered
registers registration rejected rejoin remove removed removing renewer replace replaced replan
replanned replica replica.alter.log.dirs.io.max.bytes.per.second replicas replicated replication
reports request requested requesting requests required requiredacks reset resolve resolved resource
respond rest resumable resume resumed retarget retention retry return returned returns revocation
roll rollback rolled rolling room route rpcs run running runs s safe safely said same sasl sat
satisfy save says schedule scope scram seconds secret security see seen sees segment semicolon send
sender sending sent seq sequence server session set setting settings setup several sha sha256 shall
shape share shared shares shm should shown shows shut sigint sigkill sigkilled signal signed sigterm
since single size size-asc size-desc sized sizes skip sli slo slow slower small snapshot so some
someone soon soonest source space speak specified specify split ssl sslv3 stale stall stalled stalls
stand start start_at started state static status stay stays step steps still stop stopped stopping
stops storage stored string submitted subscribed subscription subtract successfully such sun
supplied support supported sync synchronous system t table take taken takes target tb telemetry tell
terminal text than that the their them then there these they this those though throttle throttled
throttles throttling through thrown thu tiered time timed timeout times timestamp tls tlsv1 to
together token told too took tools topic topics touched transaction transactional transactionalid
transactions tried trigger trim trimmed true trusts try trying tue twice two txn type unable
unacceptable unauthorized unavailable unbounded unclean.leader.election.enable under
under-replicated unexpected unit unknown unreachable unreadable unreleased unseen unset unstable
unsupported until up update updated upgrade urgent url usage use used user username using utf valid
validation value values variable verdict verification verify version versions via view violation
voter voters wait waited waiting waits wal want was watermark wave way we wed were what when where
whether which while while_command who whole whose why will window windows with within without words
worked would write writes writetxnmarker writing written wrong wrote yet you your zero
"""
PLAIN_WORDS = frozenset(_WORDS.split())
