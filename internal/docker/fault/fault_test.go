package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/docker/daemon"
)

func TestOf(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		kind  daemon.Kind
		waits string // code of what is waited for; empty: it is tried again or given up
	}{
		{daemon.KindUnavailable, string(CodeUnavailable)}, {daemon.KindInterrupted, string(CodeUnknown)}, {daemon.KindConflict, string(CodeInUse)},
		{daemon.KindFailed, ""}, {daemon.KindNotFound, ""}, {daemon.KindRefused, ""}, {daemon.KindDenied, ""},
	} {
		inner := &daemon.Error{Call: "make", Kind: c.kind, Err: plain}
		for _, err := range []error{inner, fmt.Errorf("wrapped: %w", inner)} {
			got := Of(t.Context(), err)
			if strings.HasPrefix(got.Error(), "blocked: "+c.waits+":") != (c.waits != "") || c.waits == "" && !errors.Is(got, plain) {
				t.Errorf("%d is %v", c.kind, got)
			}
		}
	}
	two := &daemon.Error{Call: "start", Kind: daemon.KindRefused, Err: errors.New("network back is ambiguous (2 matches found on name)")}
	if got := Of(t.Context(), two); !strings.HasPrefix(got.Error(), "blocked: "+string(CodeInUse)+":") {
		t.Errorf("two networks of one name, one of which goes, are no reason to give up: %v", got)
	}
	if Of(t.Context(), nil) != nil || Of(t.Context(), plain) != plain {
		t.Error("an error of other origin changed")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("superseded")
	cancel(gone)
	if err := Of(ctx, &daemon.Error{Kind: daemon.KindInterrupted, Err: plain}); !errors.Is(err, gone) {
		t.Errorf("the cause is lost: %v", err)
	}
}
