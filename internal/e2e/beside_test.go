package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// apart has the tests that cannot share a NATS server with others, by the reason. What follows a slash is a part of one.
func apart() map[string][]string {
	return map[string][]string{
		"shares a NATS by itself": {
			"TestPrefix_TestsPassBesideEachOther", "TestPrefix_TwoServersShareAnAccount", "TestPrefix_ChangeIsWarnedOf",
			"TestPrefix_BackupIsRestoredUnderAnother", "TestPrefix_BackupMayHaveLargeEvents", "TestDomain_ServerStoresInAnotherDomain",
		},
		"stops NATS, pauses it, or needs a cluster": {
			"TestFault_EventsOutliveThoseOfNATS", "TestStop_EndsWithoutNATS", "TestWake_SurvivesAnOutageOfNATS",
			"TestOutage_LinesDoNotGrowWithSubscriptions", "TestFeed_ReadersOutliveTheirServer/NATS_is_away",
			"TestLeader_PausedOneStopsNoDelivery", "TestLeader_PausedOneStopsNoConsumer",
			"TestKnowledge_JobsOutliveAReplicaAndItsLeader",
		},
		"damages or removes files of NATS": {
			"TestDamage_LostPauseDeliversNothing", "TestDamage_ShorterLogIsToldAndMovesOn", "TestDamage_UnreadableEventIsFound",
			"TestDamage_LostRevocationGivesNothing", "TestGone_WhileTheServerWasStoppedIsTold", "TestMissed_UnreadableEventIsADeadLetter",
			"TestMissed_CutLogIsOneDeadLetter", "TestMissed_ReadersAreToldOfTheGap", "TestMissed_StateNamesItsGaps",
			"TestMissed_ClosedStreamNamesItsLostEnd", "TestMissed_ReplayCountsItsGap", "TestMissed_TrialOfAWatchCountsItsGap",
			"TestMissed_ExportListsItsGap",
		},
		"fills the disk, or the room that NATS has": {
			"TestDiskFull_HealsByItself", "TestStop_EndsOnFullDisk", "TestFullStore_IsAdministered", "TestFullStore_KeepsItsLastRoom",
			"TestFullStore_ElsewhereIsToldAndHeals", "TestFullStore_ElsewhereIsAdministered", "TestFullStore_ElsewhereLosesNothing",
			"TestFullStore_WakesAreTakenOver", "TestFullStore_WorkersGoOn", "TestFullStore_IsReported",
		},
		"is about the options, users and certificates of a NATS": {
			"TestProducer_IsBelievedFromTrustedUsers", "TestBrokerUsers_StayInTheirNamespaces", "TestBrokerUsers_ComeFromTheOperator",
			"TestTLS_UnusableBrokerFilesEndTheStart", "TestTLS_UnreadableCertificateEndsTheStart", "TestNATS_GuardedServerIsUsed",
			"TestStart_RefusesWrongCredentialsOfNATS", "TestPublish_UnknownNamespaceIsAnsweredAtOnce", "TestBroker_ListensOnlyIfConfigured",
			"TestFeed_ServesAHerdFromFarBack", "TestInspector_ChangesNothing", "TestInspector_SeesAllOfIt",
			"TestInspector_NeedsTheKeyByDefault", "TestInspector_ConsumersAreBounded",
		},
		"restores streams, and two restores at once are a data race in nats-server 2.15.2 (tieredReservation)": {
			"TestBackup_GoesOnElsewhere", "TestBackup_SharedReaderGoesOn", "TestRestore_RefusesDamage", "TestMirror_RestorationEndsCursors",
		},
		"is about the data directory of an embedded NATS": {
			"TestCompatibility_EarlierDataIsServed", "TestCompatibility_WritesAFixture", "TestUpgrade_DataOf4ec7227",
			"TestBackup_RefusesADirectoryInUse", "TestSealKey_IsMadeAtTheFirstStart", "TestSecret_IsInNoOutput", "TestStart_AddressInUseNamesTheFlag",
			"TestStart_UnwritableDataDirectoryIsReported",
		},
	}
}

// everyFacet has a test of each facet that stores something.
const everyFacet = "^(TestPublish_ByAnyNATSClientIsDelivered|TestRedrive_RepeatsDeadLetters|TestReplay_DoesNotWaitForOthers|" +
	"TestFeed_AcknowledgesReplaysAndContinuesLive|TestState_HasEveryAcknowledgedEvent|TestStream_AppendsAreDelivered|" +
	"TestStreamSub_NoticeIsSignedAndCallsBack|TestWake_IsTakenOverFromAKilledServer|TestMirror_FollowsANamespaceOfTheServer|" +
	"TestKnowledge_SurvivesARestart|TestWatch_KeepsItsStateAcrossARestart|TestAppointment_FiresWithTheRightsOfTheMoment|" +
	"TestModule_PublishesPrintedEvents|TestGone_DeliveriesGoOn|TestCatalogue_HoldsAfterRestartAndOnEveryReplica)$"

// Issue 18's bar: two processes with a prefix each run these tests in one NATS account at the same time, beside a program
// with the bucket keys and a stream over events.>. It is a test of each facet, and with SLUICE_LONG all but those apart.
func TestPrefix_TestsPassBesideEachOther(t *testing.T) { //nolint:tparallel // what is checked last waits for the processes
	t.Parallel()
	nats := natstest.Listening(t)
	js := dial(t, nats.ClientURL())
	stranger := settle(t, js)
	t.Run("together", func(t *testing.T) {
		for _, prefix := range []string{"acme", "umbrella"} {
			t.Run(prefix, func(t *testing.T) {
				t.Parallel()
				testsOn(t, nats.ClientURL(), prefix)
			})
		}
	})
	stranger.unharmed(t)
	require.ElementsMatch(t, []string{"SHOP", "KV_keys"}, streamsOf(t, js), "each test removes what it stored")
}

func streamsOf(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	require.NoError(t, list.Err())
	return names
}

// testsOn runs tests of this package with a prefix, on a NATS server that others use too.
func testsOn(t *testing.T, address, prefix string) {
	t.Helper()
	run := everyFacet
	if faulttest.Long() {
		run = "^Test"
	}
	listed, err := exec.CommandContext(t.Context(), childProgram(t), "-test.list=^Test").Output()
	require.NoError(t, err)
	all := strings.Fields(string(listed))
	var skip []string
	for why, tests := range apart() {
		for _, test := range tests {
			require.Contains(t, all, strings.Split(test, "/")[0], why)
			skip = append(skip, "^"+strings.Replace(test, "/", "$/^", 1)+"$")
		}
	}
	file := filepath.Join(t.TempDir(), "said")
	out, err := os.Create(file)
	require.NoError(t, err)
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(t.Context(), childProgram(t), "-test.v", "-test.parallel=4", "-test.timeout=50m", "-test.run="+run, "-test.skip="+strings.Join(skip, "|"))
	cmd.Env = append(os.Environ(), endsAtOnce, natstest.SharedEnv+"="+address, natstest.PrefixEnv+"="+prefix, "SLUICE_LONG=")
	cmd.WaitDelay, cmd.Stdout, cmd.Stderr = time.Minute, out, out
	ended := cmd.Run()
	said, err := os.ReadFile(file)
	require.NoError(t, err)
	results := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): `).FindAllSubmatch(said, -1) {
		results[string(found[1])]++
	}
	t.Logf("%s: of %d tests %d passed, %d failed, %d were skipped by themselves", prefix, len(all), results["PASS"], results["FAIL"], results["SKIP"])
	if ended != nil {
		t.Log(string(said))
	}
	require.NoError(t, ended)
	require.GreaterOrEqual(t, results["PASS"], strings.Count(everyFacet, "|")+1)
}
