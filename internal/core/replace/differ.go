package replace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
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

func marks(l []diff.Difference) []string { return distinct(l, mark) }

func fields(l []diff.Difference) []string {
	return distinct(l, func(d diff.Difference) string { return d.Field })
}

// distinct is what of gives for the differences, sorted, each once.
func distinct(l []diff.Difference, of func(diff.Difference) string) []string {
	out := make([]string, len(l))
	for i, d := range l {
		out[i] = of(d)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// StartFirst reports whether a replacement of the workspace may start before the
// one in place stops, and why not. ImageVolumes are the targets of the volumes
// that the image declares; checked says that there is a healthcheck, declared or
// of the image.
func StartFirst(w *spec.Workspace, imageVolumes []string, checked bool) (bool, string) {
	order := w.Update.Order
	if order == spec.StopFirst {
		return false, "declared as stop-first"
	}
	if w.State != "" && w.State != spec.Running {
		return false, "it does not run for good"
	}
	// Two of these cannot be at once, whatever is declared.
	for _, p := range w.Ports {
		if p.Fixed() {
			return false, fmt.Sprintf("port %d of the host is fixed", p.HostPort)
		}
	}
	for _, a := range w.Networks {
		if a.IPv4 != "" || a.IPv6 != "" || a.MAC != "" || len(a.LinkLocal) > 0 {
			return false, "its address in network " + a.Network + " is fixed"
		}
	}
	if w.MAC != "" {
		return false, "its hardware address is fixed"
	}
	if order == spec.StartFirst {
		return true, ""
	}
	if w.NetworkMode == "host" {
		return false, "it shares the network of the host"
	}
	var mounted []string
	for _, m := range w.Mounts {
		mounted = append(mounted, m.Target)
		if m.Type != spec.MountTmpfs && !m.ReadOnly {
			return false, m.Target + " can be written"
		}
	}
	for _, f := range w.Contents {
		mounted = append(mounted, f.Target)
		if f.Writable && f.Tree {
			return false, f.Target + " can be written"
		}
	}
	for _, v := range imageVolumes {
		if !slices.Contains(mounted, v) {
			return false, v + " can be written"
		}
	}
	if !checked {
		return false, "it has no healthcheck"
	}
	return true, ""
}
