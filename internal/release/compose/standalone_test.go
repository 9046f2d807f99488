package compose

import (
	"fmt"
	"testing"
)

func TestUsesContext(t *testing.T) {
	for text, want := range map[string]bool{
		"FROM a\nRUN b\n": false, "FROM a\nCOPY b c": true, "FROM a AS x\nFROM b\nCOPY --from=x c d": false,
		"FROM a\ncopy b \\\n c": true, "FROM a\nONBUILD RUN x": true, "FROM a\nRUN --mount=type=bind,target=/x y": true, "FROM a\nADD b c": true,
	} {
		if got := usesContext(text); got != want {
			t.Errorf("%s: %t", fmt.Sprintf("%q", text), got)
		}
	}
}
