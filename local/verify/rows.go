package verify

import "slices"

// Rows returns all rows, in the order in which [Run] tests them. Rows that exhaust a limit follow the
// rows that need admitted requests.
func Rows() []Row {
	var rows []Row
	for _, u := range surfaces {
		rows = append(rows, u.answers())
	}
	rows = append(rows, storeDecides)
	for _, u := range []surface{restAPI, httpAPI} {
		rows = append(rows, u.allowedRows()...)
		rows = append(rows, u.acceptedRows()...)
	}
	rows = append(rows, functionURL.allowedFields(), layerURL.allowedFields())
	rows = append(rows, customDomain, settlement)
	rows = append(rows, distributionRows()...)
	rows = append(rows, notCached, limitExact)
	rows = append(rows, restRefusedRows...)
	for _, u := range []surface{httpAPI, functionURL, layerURL} {
		rows = append(rows, u.refusedRow())
	}
	rows = append(rows, retryAfter, regionsLimit)
	rows = append(rows, resourceRows...)
	rows = append(rows, accountRows...)
	rows = append(rows, authorizerFailure, distributionFailure, authorizerMetric)
	rows = append(rows, handRows...)
	for i, r := range rows {
		rows[i].After = slices.Concat(answerRows(r), r.After)
	}
	return rows
}

// answerRows returns the IDs of the rows about the URLs to which a row sends requests.
func answerRows(r Row) (ids []string) {
	for _, u := range surfaces {
		id := u.answers().ID
		uses := slices.Contains(r.Needs, u.need) || slices.Contains(r.Needs, NeedAnyURL)
		if uses && r.ID != id && !slices.Contains(r.Needs, NeedStack) {
			ids = append(ids, id)
		}
	}
	return ids
}
