package control

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/session"
)

// TestOutputOfCommandsWithoutSecrets: what a failed command of a phase wrote is told without the secrets of the host's
// sessions, also where it is cut off within one.
func TestOutputOfCommandsWithoutSecrets(t *testing.T) {
	ref := session.SecretRef{Session: "lab", Created: time.UnixMilli(1), Part: "p", Pod: "q", Name: "password"}
	value := ref.Value([]byte("key"))
	known := map[string]string{ref.String(): value}
	for _, wrote := range []string{value, "a " + value + " b", value[12:] + " rest", base64.StdEncoding.EncodeToString([]byte("x=" + value))} {
		got := withoutSecrets(known, errors.New("exit code 1: "+wrote)).Error()
		if strings.Contains(got, value[12:]) || !strings.Contains(got, "[secret session/lab/") {
			t.Errorf("%s", got)
		}
	}
	plain := errors.New("exit code 1: nothing of it")
	if got := withoutSecrets(known, plain); !errors.Is(got, plain) || withoutSecrets(known, nil) != nil {
		t.Errorf("%v", got)
	}
}
