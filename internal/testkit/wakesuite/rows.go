package wakesuite

// unseen returns the statements of S1 that no test here covers, with the reasons.
func unseen() map[string]string {
	return map[string]string{
		"S1-02":  "is about all the others",
		"S1-27":  "states are not shown over HTTP; each of the ways between them has its test",
		"S1-69":  "is what a receiver does",
		"S1-86":  "tokens live an hour; tested in internal/wake",
		"S1-93":  "tokens live an hour; tested in internal/wake",
		"S1-94":  "is what a consumer does",
		"S1-95":  "is what a consumer does",
		"S1-118": "the eleventh retry comes after two minutes; tested in internal/wake",
		"S1-125": "three days of failure; tested in internal/wake",
	}
}
