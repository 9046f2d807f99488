package sqlite

// FlushEvery makes s write the ends of chains after every n events.
func FlushEvery(s *Store, n uint64) { s.flushEvery = n }

// Forget makes s rebuild the ends of chains from the disk.
func Forget(s *Store) {
	s.chainsMu.Lock()
	defer s.chainsMu.Unlock()
	s.chains = chains{}
}
