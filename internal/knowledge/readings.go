package knowledge

// Sources that a space must read before it can answer, besides each mirror.
const (
	loadLog     = "=log"
	loadRecords = "=records"
	loadMirrors = "=mirrors"
)

// readings tracks what a space has read. The lock of the space guards them.
type readings struct {
	loading map[string]bool // sources that have not been read yet
	whole   bool            // everything was read once
	last    uint64          // number of readings that have begun, of sources and of records
}

func newReadings() readings {
	var r readings
	r.restart()
	return r
}

// restart notes that everything has to be read.
func (r *readings) restart() {
	r.loading = map[string]bool{loadLog: true, loadRecords: true, loadMirrors: true}
}

// begin returns the number of a reading that begins.
func (r *readings) begin() uint64 {
	r.last++
	return r.last
}

// meet has a mirror read before the space is complete, if the mirrors are still becoming known.
func (r *readings) meet(mirror string) {
	if r.loading[loadMirrors] {
		r.loading[mirror] = true
	}
}

// leave notes that a mirror has not to be read.
func (r *readings) leave(mirror string) { delete(r.loading, mirror) }

// done notes that a source was read.
func (r *readings) done(what string) {
	delete(r.loading, what)
	r.whole = r.whole || len(r.loading) == 0
}

// pending reports whether a source has not been read yet.
func (r *readings) pending() bool { return len(r.loading) > 0 }

// entriesPending is pending, apart from the records.
func (r *readings) entriesPending() bool {
	n := len(r.loading)
	if r.loading[loadRecords] {
		n--
	}
	return n > 0
}
