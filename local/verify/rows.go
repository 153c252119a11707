package verify

// Rows returns all rows, in the order in which [Run] tests them. Rows that exhaust a limit follow the
// rows that need admitted requests.
func Rows() []Row {
	rows := []Row{storeDecides}
	rows = append(rows, restAPI.allowedRows()...)
	rows = append(rows, httpAPI.allowedRows()...)
	rows = append(rows, functionURL.allowedFields(), layerURL.allowedFields())
	rows = append(rows, notCached, limitExact)
	rows = append(rows, restRefusedRows...)
	for _, u := range []surface{httpAPI, functionURL, layerURL} {
		rows = append(rows, u.refusedRow())
	}
	rows = append(rows, retryAfter)
	rows = append(rows, resourceRows...)
	rows = append(rows, accountRows...)
	rows = append(rows, authorizerFailure)
	return append(rows, handRows...)
}
