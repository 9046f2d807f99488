package operate

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// A table of a large rollout shows what moves or failed, and counts the rest.
func TestNotableHostsOfALargeRollout(t *testing.T) {
	members := make([]operator.Member, 20_000)
	for i := range members {
		members[i] = operator.Member{Host: fmt.Sprint("h-", i), Status: []string{"waiting", "converged", "at-target", "ahead"}[i%4]}
	}
	if shown, left := notable(members); len(shown) != 0 || left != len(members) {
		t.Errorf("%d shown, %d left of a quiet rollout", len(shown), left)
	}
	members[7].Status, members[19_999].Status = "failed", "claimed"
	shown, left := notable(members)
	if len(shown) != 2 || shown[0].Host != "h-7" || shown[1].Host != "h-19999" || left != len(members)-2 {
		t.Errorf("shown %v, %d left", shown, left)
	}
	for i := range members {
		members[i].Status = "failed"
	}
	if shown, left := notable(members); len(shown) != maxMembers || left != len(members)-maxMembers {
		t.Errorf("%d shown, %d left of a broken one", len(shown), left)
	}
	if shown, left := notable(members[:maxMembers]); len(shown) != maxMembers || left != 0 {
		t.Errorf("%d shown, %d left of a small one", len(shown), left)
	}
}
