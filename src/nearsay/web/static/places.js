// Where the points of each label or group lie: its center, and an outline around most of its points.

const MOST_INSIDE = 0.9;

function gathered(points, numbers) {
  const places = new Map();
  for (let row = 0; row < numbers.length; row += 1) {
    if (numbers[row] === 65535 || Number.isNaN(points[2 * row])) continue;
    if (!places.has(numbers[row])) places.set(numbers[row], []);
    places.get(numbers[row]).push([points[2 * row], points[2 * row + 1]]);
  }
  return places;
}

const middle = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

// The convex hull of points, by the monotone chain.
export function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  if (sorted.length < 3) return sorted;
  const turns = ([ax, ay], [bx, by], [cx, cy]) => (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
  const half = (list) => {
    const kept = [];
    for (const point of list) {
      while (kept.length > 1 && turns(kept.at(-2), kept.at(-1), point) <= 0) kept.pop();
      kept.push(point);
    }
    kept.pop();
    return kept;
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

// For each number: its center (medians), and the outline of the points nearest to it.
export function placesOf(points, numbers) {
  return [...gathered(points, numbers)].map(([number, own]) => {
    const center = [middle(own.map(([x]) => x)), middle(own.map(([, y]) => y))];
    const far = ([x, y]) => Math.hypot(x - center[0], y - center[1]);
    const near = own.sort((a, b) => far(a) - far(b)).slice(0, Math.max(3, Math.ceil(MOST_INSIDE * own.length)));
    return { number, center, outline: hull(near), size: own.length };
  });
}
