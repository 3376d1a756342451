// Package faulttest breaks the dependencies of a server for tests. It also lists the tested faults,
// and measures a server during a fault.
package faulttest

import "os"

// Fault is a failure, and the test that causes it.
type Fault struct {
	ID    string // identifies the fault in its test and in results
	Group string
	Name  string
	Done  string // the test's action
	Test  string // "package.Test"
}

// Groups of faults, in the order of the table.
const (
	GroupNATS     = "NATS"
	GroupEndpoint = "The endpoint"
	GroupClock    = "The clock"
	GroupProcess  = "The process"
	GroupStore    = "The store"
	GroupOperator = "Acts of operators meanwhile"
)

const (
	natsTest     = "e2e.TestFault_EventsOutliveThoseOfNATS"
	fullTest     = "delivery.TestStore_RefusedWriteIsWaitedFor"
	stopTest     = "e2e.TestStop_EndsWithoutNATS"
	endpointTest = "e2e.TestFault_EventsOutliveThoseOfTheEndpoint"
)

// Faults returns every tested fault.
func Faults() []Fault {
	return []Fault{
		{"nats-restart", GroupNATS, "NATS restarts", "an external server is restarted three times while events come", natsTest},
		{"nats-away", GroupNATS, "NATS is away", "an external server is shut down for a minute (short: 3 s)", natsTest},
		{"nats-away-embedded", GroupNATS, "NATS in the same process is away", "the same with a server that is reached without a network", "delivery.TestEmbedded_OutageRepeatsNothing"},
		{"nats-slow", GroupNATS, "NATS is slow", "a proxy delays each direction by 100 ms and lets 64 KiB/s pass", natsTest},
		{"nats-half-open", GroupNATS, "the connection to NATS is half open", "a proxy swallows all data, in both directions, and closes nothing", natsTest},
		{"nats-cut", GroupNATS, "connections to NATS break", "a proxy closes all connections every 300 ms, ten times (long: forty)", natsTest},
		{"nats-leader-paused", GroupNATS, "the leader in a NATS cluster is paused", "of three servers the one that leads the log, a consumer of it, `ATTEMPTS` or the leases gets SIGSTOP until events arrive again, three times each", "e2e.TestLeader_PausedOneStopsNoDelivery"},
		{"full-attempts", GroupNATS, "the attempts' stream is full", "`max_bytes` with discard new on `ATTEMPTS`, lifted later", fullTest},
		{"full-dead-letters", GroupNATS, "the dead letters' stream is full", "`max_bytes` with discard new on `DEADLETTERS`, lifted later", fullTest},
		{"full-lanes", GroupNATS, "the bucket of parked lanes is full", "`max_bytes` with discard new on the bucket, lifted later", fullTest},
		{"full-disk", GroupNATS, "no room on NATS' disk", "other streams take all that the server may store; one is deleted later", fullTest},
		{"full-store", GroupNATS, "events have filled the store", "publishers fill an embedded server's `max_store`; the namespace's `max_bytes` is lowered later", "e2e.TestFullStore_IsAdministered"},
		{"full-elsewhere", GroupNATS, "NATS elsewhere is full", "other streams take all that an external server may store, and Sluice knows no limit; they are deleted later", "e2e.TestFullStore_ElsewhereLosesNothing"},
		{"disk-full", GroupNATS, "the disk takes no writes", "every write of a file fails, in a process of its own; later they succeed again", "e2e.TestDiskFull_HealsByItself"},

		{"endpoint-hangs", GroupEndpoint, "it never answers", "the first requests are read and not answered", endpointTest},
		{"endpoint-drips", GroupEndpoint, "it drips a byte a second", "of the head, and of the body", endpointTest},
		{"endpoint-cuts-body", GroupEndpoint, "it closes in the middle of a body", "half of a 200's body, then the connection is closed", endpointTest},
		{"endpoint-cuts", GroupEndpoint, "it closes before it answers", "the request is read, then the connection is closed", endpointTest},
		{"endpoint-huge", GroupEndpoint, "it answers 100 MB", "a 500 with an endless body; 64 KiB are read", endpointTest},
		{"endpoint-garbage", GroupEndpoint, "it answers garbage", "bytes that are not HTTP", endpointTest},
		{"endpoint-1xx", GroupEndpoint, "it answers 103 without end", "informational answers until the connection is closed", endpointTest},
		{"endpoint-redirects", GroupEndpoint, "it redirects in a loop", "302 to itself; redirects are not followed", endpointTest},
		{"endpoint-expired", GroupEndpoint, "its certificate has expired", "TLS with a certificate of last year, then the URL is patched", endpointTest},
		{"endpoint-slow-tls", GroupEndpoint, "its TLS handshake takes for ever", "the connection is accepted, and nothing said; then the URL is patched", endpointTest},
		{"endpoint-moves", GroupEndpoint, "its address changes", "DNS answers another address, and the old one hangs", "delivery.TestEndpoint_MayMove"},
		{"endpoint-moves-away", GroupEndpoint, "its address changes, and the old one refuses", "DNS answers another address, and the old one answers 503 over a connection that is kept", "delivery.TestEndpoint_MayMove"},

		{"clock-back", GroupClock, "it was set back by an hour", "a lane's record was written by a clock that is an hour ahead; then the process starts", "delivery.TestClock_SetBackWaitsOnceMoreAtMost"},
		{"clock-ahead", GroupClock, "it was set forward by an hour", "a lane's record was written by a clock that is an hour behind; then the process starts", "delivery.TestClock_SetBackWaitsOnceMoreAtMost"},
		{"clock-running", GroupClock, "it jumps while the process runs", "waits for retries are shown to be of the clock that does not jump", "delivery.TestClock_RunningProcessUsesTheMonotonicOne"},

		{"kill-any-write", GroupProcess, "it is killed between any two writes", "every write to NATS of a scenario is counted; for each, the process dies right before it and right after it", "delivery.TestEngine_SurvivesDeathBetweenAnyTwoWrites"},
		{"kill-wake", GroupProcess, "it is killed while it wakes consumers", "every write to NATS of cycles of wakes is counted; for each, the process dies right before it and right after it, and between steps that are not written", "records.TestWake_SurvivesDeathBetweenAnyTwoWrites"},
		{"kill-load", GroupProcess, "it is killed under load", "SIGKILL while events come, restart", "e2e.TestCrash_LosesNoEventAndKeepsPathOrder"},
		{"two-owners", GroupProcess, "two replicas serve one subscription", "two engines that both believe that it is theirs, with failures on the way", "delivery.TestTwoOwners_LoseNothing"},
		{"stop-away", GroupProcess, "it is told to end while NATS is away", "three attempts are in flight when NATS stops and the server is told to end; both start again", stopTest},
		{"stop-silent", GroupProcess, "it is told to end while NATS says nothing", "the same with a proxy that swallows all data on every connection", stopTest},
		{"stop-disk-full", GroupProcess, "it is told to end while the disk takes no writes", "the same with an embedded NATS of which every write of a file fails", "e2e.TestStop_EndsOnFullDisk"},
		{"parked-restart", GroupProcess, "it restarts with thousands of parked lanes", "3,000 lanes are parked (short: 300), the process dies and starts again", "delivery.TestPark_ManyLanesSurviveARestart"},

		{"consumer-torn", GroupStore, "the files of consumers are torn", "3 bytes are left of the state of each of a subscription's consumers, while the server is stopped", "delivery.TestConsumer_TornFileLosesNothing"},

		{"log-cut", GroupStore, "a log's files are damaged", "a bit of a log's block is flipped and the block's index removed, while the server is stopped: NATS cuts the log there", "e2e.TestDamage_ShorterLogIsToldAndMovesOn"},
		{"event-unreadable", GroupStore, "an event cannot be read any more", "a bit of an event is flipped in the log's block, while the server is stopped", "e2e.TestMissed_UnreadableEventIsADeadLetter"},
		{"record-damaged", GroupStore, "a record's files are damaged", "a bit of the record of a paused subscription is flipped, with and without the index, while the server is stopped", "e2e.TestDamage_LostPauseDeliversNothing"},
		{"stream-deleted", GroupStore, "streams are deleted", "`ATTEMPTS`, `DEADLETTERS` and the buckets `lanes` and `leases` are deleted by a NATS client while events come", "e2e.TestGone_DeliveriesGoOn"},

		{"subscription-deleted", GroupOperator, "a subscription is deleted", "in the middle of deliveries, one lane being parked, and made again under its id", "e2e.TestFault_OperatorsMayChangeThingsMidDelivery"},
		{"namespace-deleted", GroupOperator, "a namespace is deleted", "in the middle of deliveries, and made again under its name", "e2e.TestFault_OperatorsMayChangeThingsMidDelivery"},
		{"secret-rotated", GroupOperator, "a secret is rotated", "in the middle of deliveries, to a receiver that learns the new one late", "e2e.TestFault_OperatorsMayChangeThingsMidDelivery"},
	}
}

// Long reports whether the long forms of the tests, which take minutes, are enabled.
func Long() bool { return os.Getenv("SLUICE_LONG") != "" }
