package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
)

// Bounds of an evidence file.
const (
	maxEvidence = 1 << 20
	maxControls = 4096
	maxNamed    = 8   // in the reason
	maxWord     = 128 // of an id, a status, a framework or an article, in bytes
)

// evidence is the file that a scanner keeps.
type evidence struct {
	SubResults []host.SubResult `json:"sub_results"`
}

// lookAtEvidence reads the file of a probe. The machine compares what it says
// with the last look, so that nothing is reported again while it stays the same.
func lookAtEvidence(p fleet.Probe) Result {
	results, err := readEvidence(p.Evidence)
	if err != nil {
		return Result{Name: p.Name, Reason: system.Scrub(err.Error(), MaxReason)}
	}
	failed := slices.DeleteFunc(slices.Clone(results), func(r host.SubResult) bool { return r.Passed() })
	if len(failed) == 0 {
		return Result{Name: p.Name, Pass: true, Results: results[:min(len(results), host.MaxResults)]}
	}
	var ids []string
	for _, r := range failed[:min(len(failed), maxNamed)] {
		ids = append(ids, r.Control)
	}
	reason := fmt.Sprintf("%d of %d controls do not pass: %s", len(failed), len(results), strings.Join(ids, ", "))
	return Result{Name: p.Name, Reason: system.Scrub(reason, MaxReason), Results: failed[:min(len(failed), host.MaxResults)]}
}

func readEvidence(p *fleet.EvidenceProbe) ([]host.SubResult, error) {
	// A pipe would make the open wait, and a device could do anything.
	f, err := os.OpenFile(p.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", p.Path)
	}
	if age := time.Since(info.ModTime()); p.MaxAge > 0 && age > p.MaxAge.Std() {
		return nil, fmt.Errorf("the evidence in %s is of %s, more than %s old", p.Path, info.ModTime().UTC().Format(time.RFC3339), p.MaxAge)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxEvidence+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxEvidence {
		return nil, fmt.Errorf("the evidence in %s has more than %d bytes", p.Path, maxEvidence)
	}
	return parseEvidence(raw, p.Framework)
}

// parseEvidence is strict: evidence that is not understood whole is none.
func parseEvidence(raw []byte, framework string) ([]host.SubResult, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var e evidence
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("the evidence is not as expected: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the evidence has more than one document")
	}
	if len(e.SubResults) > maxControls {
		return nil, fmt.Errorf("the evidence has %d results, more than %d", len(e.SubResults), maxControls)
	}
	for i := range e.SubResults {
		r := &e.SubResults[i]
		if r.Control == "" || r.Status == "" || r.Framework == "" {
			return nil, fmt.Errorf("result %d of the evidence lacks its control_id, status or framework", i+1)
		}
		for _, word := range []string{r.Control, r.Status, r.Framework, r.Article} {
			if len(word) > maxWord || strings.ContainsFunc(word, func(c rune) bool { return c < ' ' || c == 0x7f }) {
				return nil, fmt.Errorf("result %d of the evidence has a name of more than %d bytes or with control characters", i+1, maxWord)
			}
		}
	}
	out := slices.DeleteFunc(e.SubResults, func(r host.SubResult) bool { return framework != "" && r.Framework != framework })
	if len(out) == 0 {
		return nil, fmt.Errorf("the evidence says nothing of framework %q", framework)
	}
	return out, nil
}
