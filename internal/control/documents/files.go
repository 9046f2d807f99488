package documents

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
)

// Files returns every file of an accepted release by name: those that its event
// named, and what hangs on them by digest, down to the content of bundles.
func (l *Library) Files(ctx context.Context, named map[string]digest.Digest, roster map[string]fleet.RosterHost) (map[string]digest.Digest, error) {
	files, bundles := maps.Clone(named), map[digest.Digest]bool{}
	for _, h := range roster {
		bundles[h.Bundle] = true
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		rollout, isLeaves := strings.CutSuffix(strings.TrimPrefix(name, "rollouts/"), ".leaves.json")
		if !isLeaves {
			continue
		}
		d, ok := l.Newest(rollout)
		if !ok {
			return nil, fmt.Errorf("no accepted release lists rollout %s", rollout)
		}
		m, err := l.Manifest(d)
		if err != nil {
			return nil, err
		}
		for _, b := range m.Header.Budgets {
			files[release.BudgetPath(b.Members)] = b.Members
		}
		if m.Header.Controls != "" {
			files[release.ControlsPath(m.Header.Controls)] = m.Header.Controls
		}
		for _, leaf := range m.Leaves {
			bundles[leaf.Target] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(bundles)) {
		raw, err := l.Blob(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("bundle %s: %w", d.Short(), err)
		}
		b, err := trust.ReadBundle(raw)
		if err != nil {
			return nil, fmt.Errorf("bundle %s: %w", d.Short(), err)
		}
		files[release.BundlePath(d)] = d
		for _, blob := range b.Blobs() {
			files[release.BlobPath(blob.Digest)] = blob.Digest
		}
	}
	return files, nil
}
