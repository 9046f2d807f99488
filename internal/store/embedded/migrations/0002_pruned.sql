-- Older versions would take a log that begins later for a damaged one, so this is recorded
-- with the first prune only. The tables are there before: see prune.go.
INSERT INTO pruned (id, seq, term, hash) VALUES (1, 0, 0, zeroblob(32));
