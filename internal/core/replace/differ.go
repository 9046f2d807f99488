package replace

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// of lists the differences of a class that are to be cured.
func (w *Want) of(c *Container, class diff.Class) []diff.Difference {
	var out []diff.Difference
	for _, d := range c.Differences {
		if d.Class == class && !(w.ReportOnly && d.Cause == diff.Outside) {
			out = append(out, d)
		}
	}
	return out
}

// outside lists what was changed outside and is left alone.
func (w *Want) outside(c *Container) []diff.Difference {
	var out []diff.Difference
	if w.ReportOnly {
		for _, d := range c.Differences {
			if d.Cause == diff.Outside {
				out = append(out, d)
			}
		}
	}
	return out
}

// stale lists why the container has to be replaced. What it was itself made to
// cure is left out: making one more would not cure it either. A change from
// outside came after it was made, and is cured again.
func (w *Want) stale(c *Container) (cure, futile []diff.Difference) {
	for _, d := range w.of(c, diff.Replace) {
		if d.Cause != diff.Outside && slices.Contains(c.MadeFor, mark(d)) {
			futile = append(futile, d)
		} else {
			cure = append(cure, d)
		}
	}
	if c.forgotten() {
		cure = append(cure, diff.Difference{Field: "start", Class: diff.Replace, Cause: diff.Outside, Desired: "possible",
			Observed: "impossible: the engine ended in the middle of one (" + c.Error + ")"})
	}
	if w.Verb == Redeploy && w.Nonce != "" && c.Fulfilled != w.Nonce {
		cure = append(cure, diff.Difference{Field: "redeploy", Class: diff.Replace, Cause: diff.Declared, Desired: w.Nonce, Observed: c.Fulfilled})
	}
	return cure, futile
}

// mark is a difference in a few bytes that show no value.
func mark(d diff.Difference) string {
	h := sha256.Sum256([]byte(d.Field + "\x00" + d.Desired + "\x00" + d.Observed))
	return d.Field + "#" + hex.EncodeToString(h[:6])
}

func marks(l []diff.Difference) []string {
	out := make([]string, len(l))
	for i, d := range l {
		out[i] = mark(d)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func fields(l []diff.Difference) []string {
	out := make([]string, len(l))
	for i, d := range l {
		out[i] = d.Field
	}
	slices.Sort(out)
	return slices.Compact(out)
}
