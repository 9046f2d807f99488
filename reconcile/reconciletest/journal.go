package reconciletest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/steadyfleet/steady/reconcile/memory"
)

// Journal is what a memory store leaves to the next process: its writes, encoded. The zero
// Journal is empty.
type Journal struct {
	mu    sync.Mutex
	lines [][]byte
}

// Open folds a store from what the earlier ones wrote. Only one may be in use.
func (j *Journal) Open() (*memory.Store, error) {
	s := memory.New(memory.WithJournal(j.write))
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		var w memory.Write
		if err := json.Unmarshal(line, &w); err != nil {
			return nil, err
		}
		if err := s.Fold(w); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (j *Journal) write(_ context.Context, w memory.Write) error {
	line, err := json.Marshal(w)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	return nil
}
