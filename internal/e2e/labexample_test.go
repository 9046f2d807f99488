package e2e

import (
	"testing"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestExampleOfALab runs the example as a new user does, on an engine of its own, and reads what it shows.
func TestExampleOfALab(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "the whole example takes minutes: STEADY_NIGHTLY=1")
	testkit.Needs(t, dockertest.Here, testkit.Docker, testkit.Curl)
	engine := dockertest.Engine(t)
	said := runExample(t, []string{"DOCKER_HOST=unix://" + engine.Socket()}, "lab/run")
	inOrder(t, said,
		`exam/desk-2 +bench-2`, `Session lab is asked for`, `asked to grade: \{"course":7\}`, `(?m)^bench-2\.lab-exam-desk-2`,
		`(?m)^202 `, `(?m)^202 `, `(?m)^401 `, `(?m)^409 `,
		`phase grade +over .*ended by event 1`, `rehearsal +failed .*exit code 3`, `pod stage +deleted`, `survey +degraded`, `pod form +converged`,
		`Degraded session lab`, `is acknowledged`, `Nothing needs you`, `session lab is Degraded`, `steady session extend lab --by 30m`, `steady session extend lab --end`,
		`is Stopping`, `pod desk-2 .*bench-2 is offline`, `(?m)^bench-2\.lab-exam-desk-2`,
		`Orphaned session lab.*exam/desk-2`, `is acknowledged`, `Everything of session lab is checked`, `is Retired`, `All of it was as it should be`)
}
