package main

import "strings"

// subject is a package that decides something, and the files of it that are changed. tests is a
// regular expression.
type subject struct {
	pkg   string   // its directory
	files []string // all of them if there are none
	why   string   // why only these files
	tests string   // which of its tests are run; all of them if empty
	floor float64  // how many in 100 changes have to be noticed, where that is not yet goal
}

// scope returns which files of the package are changed, and why only these; "" for all of them.
func (s subject) scope() string {
	if len(s.files) == 0 {
		return ""
	}
	return strings.Join(s.files, " ") + " (" + s.why + ")"
}

// driven is why the other files of a package are left out.
const driven = "the others read, store and send what these decide; internal/e2e tests them on a NATS server"

// subjects returns the packages and files that decide; code that only moves bytes is left to the
// tests of the moved data.
func subjects() []subject {
	return []subject{
		{pkg: "internal/authz"},
		{pkg: "internal/retry"},
		{pkg: "internal/filter"},
		{pkg: "internal/fairsem"},
		{pkg: "internal/quota"},
		{pkg: "internal/loopguard"},
		{pkg: "internal/explain"},
		{pkg: "internal/strictjson"},
		{pkg: "internal/schedule/timerqueue"},
		{
			pkg: "internal/bundle", files: []string{"judge.go", "key.go", "header.go", "tally.go", "entry.go"}, why: "the others read and write; they are fuzzed",
			tests: "^Test(Judge|JWK|Trust|Header|Summary|Receipt|RedTeam_Signed|RedTeam_Ambiguous|RedTeam_OnlyTheKey|Parse|Split|Document_(Returns|Has|Signature|Format|Without|Writer|Attributes|Digest)).*", // those that take no time
		},
		{pkg: "internal/mirror", files: []string{"step.go", "topology.go"}, why: driven, tests: "^Test(Next|NextAll|Conflict)_.*$"}, // the model takes longer
		{pkg: "internal/subscription", files: []string{"same.go", "change.go", "patch.go", "request.go"}, why: driven},
		{pkg: "internal/wake", files: []string{"step.go", "callback.go", "ahead.go", "change.go"}, why: driven},
		{pkg: "internal/delivery/breaker"},
		{
			pkg: "internal/delivery", files: []string{"lanetable.go", "laneacts.go", "budget.go", "park.go", "replay.go", "dispatcher.go"}, why: driven,
			tests: "^Test(Attempts|Book|Breaker|Budget|Dispatcher|LaneTable|Outbound|Pace|Replay)_.*$", // those that need no NATS
		},
		{pkg: "internal/feed", files: []string{"coalesce.go", "queue.go", "pages.go", "bounds.go"}, why: driven},
		{
			pkg: "internal/streamsub", files: []string{"step.go", "fold.go"}, why: driven,
			tests: "^(TestStep_KnownTransitions|TestLog_RestartedOneWakesForAll|TestConfig_RefusesInvalidOnes|TestNames_AreTakenTogetherOrRefused|TestAttempt_WaitsAreSpread|Test(Step|Input|Weight|Within|Room|Rest|Settle|FoldPart|Held|Behind|Shed)_.*)$", // those that need no NATS
		},
		{pkg: "internal/watch", files: []string{"step.go", "memory.go", "end.go"}, why: driven},
		{pkg: "internal/schedule/appointment", files: []string{"decide.go", "cron.go"}, why: driven},
		{pkg: "internal/schedule", files: []string{"clock.go", "index.go"}, why: driven},
		{pkg: "internal/ingest"},
		{pkg: "internal/fanout"},
		{pkg: "internal/model"},
		{pkg: "pkg/sluice"},
	}
}
