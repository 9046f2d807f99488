package place

import (
	"fmt"
	"strconv"
	"strings"
)

// maxAmount bounds what a host is believed to have and what may be wanted of it, so
// that sums of them do not overflow: a pebibyte, or as many thousandths of a CPU.
const maxAmount = 1 << 50

// Resources are amounts of what owners share. GPUs are no part of them: each has one
// owner, and is booked by its index.
type Resources struct {
	MilliCPU int64 `json:"milliCPU,omitempty"` // thousandths of a CPU
	Memory   int64 `json:"memory,omitempty"`   // bytes
}

// Add returns the sum.
func (r Resources) Add(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU + o.MilliCPU, Memory: r.Memory + o.Memory}
}

// Sub returns what is left of r without o; it may be negative.
func (r Resources) Sub(o Resources) Resources {
	return Resources{MilliCPU: r.MilliCPU - o.MilliCPU, Memory: r.Memory - o.Memory}
}

// Fits reports whether r is within free. What r wants nothing of may be overbooked.
func (r Resources) Fits(free Resources) bool {
	return enough(r.MilliCPU, free.MilliCPU) && enough(r.Memory, free.Memory)
}

func enough(want, free int64) bool { return want <= 0 || want <= free }

// GPU is one GPU as its host measured it.
type GPU struct {
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
	Memory int64  `json:"memory,omitempty"` // bytes; zero: not measured, and so not there
}

func (g GPU) measured() bool { return g.Memory > 0 }

// GPURequest is how many GPUs are wanted, and of what kind; an empty field is any.
type GPURequest struct {
	Count  int    `json:"count,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
	Memory int64  `json:"memory,omitempty"` // bytes that each has at least
}

// flaw says why a GPU does not serve the request, or nothing.
func (w *GPURequest) flaw(g GPU) string {
	switch {
	case !g.measured():
		return "not measured"
	case w.Vendor != "" && !strings.EqualFold(w.Vendor, g.Vendor), w.Model != "" && !strings.EqualFold(w.Model, g.Model):
		return "of another kind"
	case g.Memory < w.Memory:
		return "too small"
	}
	return ""
}

// String is the number wanted with its kind: 2, or 2 of nvidia a100 with at least 40 GiB.
func (w *GPURequest) String() string {
	s := strconv.Itoa(w.Count)
	if kind := strings.TrimSpace(w.Vendor + " " + w.Model); kind != "" {
		s += " of " + kind
	}
	if w.Memory > 0 {
		s += " with at least " + memoryText(w.Memory)
	}
	return s
}

func cpuText(milli int64) string { return decimal(milli, 1000) }

// memoryText is a number of bytes in the largest unit of which it is at least one.
func memoryText(bytes int64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size := int64(1) << (40 - 10*i); bytes >= size {
			return decimal(bytes, size) + " " + unit
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// decimal is n/unit cut to three places, without zeros at the end.
func decimal(n, unit int64) string {
	s := fmt.Sprintf("%d.%03d", n/unit, n%unit*1000/unit)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
