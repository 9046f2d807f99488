package docker_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// features lists what a host does with containers, in the rows in which agents of
// the field are compared, each with the tests that show it: by folder below
// internal, and name.
var features = []struct {
	what  string
	tests []string
}{
	{"pull model, interval, self-correcting", []string{"docker.TestOutsideChangesAreSeenWithoutEvents", "agent/daemon.TestConverges", "docker.TestRandomSpecsAndOutsideChangesConverge"}},
	{"ordered by dependency", []string{"core/deploy.TestNothingBeforeWhatItNeeds", "docker.TestMassRemoval"}},
	{"independent resources in parallel", []string{"docker.TestPoolsBoundWhatRunsAtOnce", "docker.TestOneFailureIsItsOwn"}},
	{"in place or made anew, field by field", []string{"docker/convert.TestS36InPlaceCures", "docker/convert.TestInPlaceWhileItRuns", "docker/workspace.TestInPlace", "docker/workspace.TestReplace"}},
	{"rename in place", []string{"docker.TestOutsideChangesAreSeenByEvents", "docker/workspace.TestInPlace"}},
	{"network reattached in place, aliases kept", []string{"docker/convert.TestInPlaceWhileItRuns", "docker.TestOutsideChangesAreSeenByEvents"}},
	{"replacement keeps identity and volumes", []string{"docker.TestKillAtEveryEngineCallOfAReplace", "docker.TestEngineStoppedKilledRestartedInTheMiddle", "docker/convert.TestTrap10_AnonymousVolumesStay"}},
	{"thorough comparison without regard to order", []string{"docker/convert.TestS36RandomSpecs", "docker/convert.TestEveryFieldIsCompared", "docker/convert.TestS36EveryFieldIsSeen", "core/spec.TestS36NormalizeIsIdempotentAndIgnoresOrder"}},
	{"docker update by hand is seen", []string{"docker.TestOutsideChangesAreSeenByEvents", "docker.TestOutsideChangesAreSeenWithoutEvents", "docker/convert.TestTrap04_UpdateFromOutside"}},
	{"disconnect, rename, rm and stop by hand are seen", []string{"docker.TestOutsideChangesAreSeenByEvents", "docker.TestOutsideChangesAreSeenWithoutEvents", "docker.TestOutsideChangesAreReportedByPolicy"}},
	{"build on the host, live output", []string{"docker/image.TestBuildFromAContext", "docker/image.TestFollowSeesLinesBeforeTheEnd"}},
	{"pull with credentials", []string{"docker/image.TestPullWithCredentials", "docker/image.TestPrivateBaseImage"}},
	{"cancel a build", []string{"docker/image.TestCancelStopsARunningBuild", "docker.TestOneFailureIsItsOwn"}},
	{"what failed is tried again", []string{"docker/image.TestFailedBuildIsRetried", "docker/workspace.TestFailingReplacement"}},
	{"snapshot of a running workspace", []string{"docker/storage.TestTrap19_SnapshotIsScrubbedAndRestored", "docker/storage.TestWaitsForTheWorkspace"}},
	{"clean-up only when it is safe", []string{"docker/image.TestS37CollectByReference", "docker/storage.TestS37AllowedRemovalWaitsForUsers", "docker.TestS35WhatOthersHaveIsLeftAlone", "docker.TestMassRemoval"}},
	{"declarations faster than they are carried out", []string{"docker.TestS37NothingThatIsStillDeclaredIsTouched", "docker.TestOneFailureIsItsOwn", "docker.TestFourAgentsOnOneEngine"}},
	{"status at once, per resource", []string{"docker.TestOneFailureIsItsOwn", "docker.TestHungEngineIsUnknownAndNeverAskedTwice"}},
	{"heartbeat with metrics of host, GPUs and workspaces", []string{"api.TestHeartbeatMetrics", "agent/measure.TestGPUs", "agent/measure.TestRealWorkspace", "agent/measure.TestContainerOfTheEngine"}},
	{"the server's reply tunes settings", []string{"api.TestSettingsReachTheirHost", "agent/hosting.TestTune", "e2e.TestLyingSettings"}},
	{"a disabled host stops its workspaces", []string{"docker.TestDisabledHost"}},
	{"the failure of one is its own", []string{"docker.TestOneFailureIsItsOwn", "core/deploy.TestFailuresAreContained"}},
	{"status is delivered until it is accepted", []string{"agent/daemon.TestEventsSurviveAServerThatIsAway", "e2e.TestKilledProcessesLoseNothing"}},
}

// traps is how many traps of comparing with what an engine shows are known, each
// with tests named TestTrapNN….
const traps = 20

// TestFeatureTable: every feature is shown by tests that exist, and every trap has
// one that names it.
func TestFeatureTable(t *testing.T) {
	have := testsBelow(t, "..")
	if len(have) < 100 {
		t.Fatalf("only %d tests found", len(have))
	}
	for _, f := range features {
		if len(f.tests) == 0 {
			t.Errorf("nothing shows: %s", f.what)
		}
		for _, name := range f.tests {
			if !have[name] {
				t.Errorf("%s: there is no test internal/%s", f.what, name)
			}
		}
	}
	for n := 1; n <= traps; n++ {
		found := false
		for name := range have {
			folder, test, _ := strings.Cut(name, ".")
			found = found || strings.HasPrefix(folder, "docker") && strings.HasPrefix(test, fmt.Sprintf("TestTrap%02d", n))
		}
		if !found {
			t.Errorf("trap %d has no test", n)
		}
	}
}

// testsBelow are the names of all tests below a folder, as folder.Test.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "testdata":
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				out[filepath.ToSlash(folder)+"."+fn.Name.Name] = true
			}
		}
		return nil
	})
	testkit.Must(t, err)
	return out
}
