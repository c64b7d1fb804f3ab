package jobs_test

func runChild() bool { return false }
