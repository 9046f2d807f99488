package dockerapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		kind  Kind
		waits string // code of what is waited for; empty: it is tried again or given up
	}{
		{KindUnavailable, string(CodeUnavailable)}, {KindInterrupted, string(CodeUnknown)}, {KindConflict, string(CodeInUse)},
		{KindFailed, ""}, {KindNotFound, ""}, {KindRefused, ""}, {KindDenied, ""},
	} {
		inner := &Error{Call: "make", Kind: c.kind, Err: plain}
		for _, err := range []error{inner, fmt.Errorf("wrapped: %w", inner)} {
			got := ErrorOf(t.Context(), err)
			if strings.HasPrefix(got.Error(), "blocked: "+c.waits+":") != (c.waits != "") || c.waits == "" && !errors.Is(got, plain) {
				t.Errorf("%d is %v", c.kind, got)
			}
		}
	}
	two := &Error{Call: "start", Kind: KindRefused, Err: errors.New("network back is ambiguous (2 matches found on name)")}
	if got := ErrorOf(t.Context(), two); !strings.HasPrefix(got.Error(), "blocked: "+string(CodeInUse)+":") {
		t.Errorf("two networks of one name, one of which goes, are no reason to give up: %v", got)
	}
	if ErrorOf(t.Context(), nil) != nil || ErrorOf(t.Context(), plain) != plain {
		t.Error("an error of other origin changed")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("superseded")
	cancel(gone)
	if err := ErrorOf(ctx, &Error{Kind: KindInterrupted, Err: plain}); !errors.Is(err, gone) {
		t.Errorf("the cause is lost: %v", err)
	}
}
