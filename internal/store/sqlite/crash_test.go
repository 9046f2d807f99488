package sqlite_test

const crashDir = "STEADY_STORE_CRASH_DIR"

func crashChild(string) {}
