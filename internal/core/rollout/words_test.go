package rollout

import "testing"

// TestEveryMemberStatusHasItsWord: in the order of the statuses.
func TestEveryMemberStatusHasItsWord(t *testing.T) {
	if len(MemberMeanings) != int(statuses)-1 {
		t.Fatalf("%d words for %d statuses", len(MemberMeanings), statuses-1)
	}
	for i, w := range MemberMeanings {
		if s := Status(i + 1); w.Word != s.String() {
			t.Errorf("word %d is %q, the status is %q", i, w.Word, s)
		}
	}
}
