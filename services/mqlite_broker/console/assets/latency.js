// How long things took, read from cumulative histograms: percentiles and means, of all or of a while.
// Used by the page Observe. Pure. A percentile is the upper bound of its bucket, as the live monitor has it;
// where nothing happened it is null, and beyond the last bound it is Infinity.

// A histogram as { bounds, counts, count, sum } of the wire's two shapes.
export function ofCall({ buckets, count, sum_seconds }) {
  return {
    bounds: buckets.map((each) => each.upper_bound_seconds),
    counts: buckets.map((each) => each.count),
    count,
    sum: sum_seconds,
  };
}

export function ofDuration({ bounds_seconds, bucket_counts, count, sum_seconds }) {
  return { bounds: bounds_seconds, counts: bucket_counts, count, sum: sum_seconds };
}

// What came between two of them; `before` may be missing.
export function between(now, before) {
  if (!before || before.count > now.count) return now;
  return {
    bounds: now.bounds,
    counts: now.counts.map((count, index) => count - (before.counts[index] ?? 0)),
    count: now.count - before.count,
    sum: now.sum - before.sum,
  };
}

export function percentile({ bounds, counts, count }, part) {
  if (!count) return null;
  const index = counts.findIndex((each) => each >= part * count);
  return index < 0 ? Infinity : bounds[index];
}

export function mean({ count, sum }) {
  return count ? sum / count : null;
}
