package flow

// records keeps what a run has fetched and made.
type records struct{}

func newRecords() records { return records{} }
