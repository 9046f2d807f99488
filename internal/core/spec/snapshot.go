package spec

import (
	"cmp"
)

// Snapshot is a running workspace captured as an image. It is taken once for
// each Take; it holds no volume's content and no state of processes.
type Snapshot struct {
	Name      string `json:"name"`
	Workspace string `json:"workspace" required:"true" example:"web" doc:"the workspace that is captured"`
	// Ref names the image; empty takes the host's prefix, "snapshot-" and Name.
	Ref  string   `json:"ref,omitempty"`
	Take int64    `json:"take,omitempty"`
	Live bool     `json:"live,omitempty" doc:"does not pause the workspace meanwhile"`
	Keep []string `json:"keep,omitempty" doc:"environment names that are kept although they may hold secrets"`
}

func (s *Snapshot) Named() *string { return &s.Name }
func (s *Snapshot) Normalize()     { s.Keep = unique(s.Keep) }

func (s *Snapshot) Needs() []Need {
	return []Need{{ID{KindWorkspace, s.Workspace}, Started, true}}
}

func (s *Snapshot) Blobs() []Blob   { return nil }
func (s *Snapshot) Confine(*Bounds) {}

// Unique is empty: what it is named is for its workspace's image to say.
func (s *Snapshot) Unique() string { return "" }

// EngineRef is how the engine names the image of the snapshot.
func (s *Snapshot) EngineRef(t NameMapper) string {
	return cmp.Or(s.Ref, t("snapshot-"+s.Name)+":steady")
}

func (s *Snapshot) Claims(t NameMapper) []Claim { return []Claim{{What: claimOf(s.EngineRef(t))}} }

func (s *Snapshot) Check(c Checker) {
	checkName(c.In("workspace"), s.Workspace)
	checkSize(c, "take", s.Take)
	checkTexts(c.In("keep"), s.Keep)
	checkRef(c.In("ref"), s.Ref)
}

func (s *Snapshot) CheckBounds(_ *Bounds, c Checker) {
	if s.Ref != "" {
		c.In("ref").Addf("a snapshot named %q could take the place of another image: expected no reference, so that it is named after the host", s.Ref)
	}
}
