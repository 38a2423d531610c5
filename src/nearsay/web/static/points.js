// Points on a canvas: a million of them in one pass over the pixels, without a library.

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#b4539a", "#a07800", "#3f8fd0", "#7a5bc2", "#8a6a4f", "#5d7f2a", "#c2415b"];
const UNLABELED = 65535;

// One color for each label number, as the pixels of a canvas hold them; the second table is for what steps back.
export function colorTables(dark) {
  const full = new Uint32Array(65536);
  const faint = new Uint32Array(65536);
  for (let number = 0; number < 65536; number += 1) {
    const [red, green, blue] = number === UNLABELED ? [128, 128, 132] : rgb(number, dark);
    full[number] = (255 << 24) | (blue << 16) | (green << 8) | red;
    faint[number] = (48 << 24) | (blue << 16) | (green << 8) | red;
  }
  return { full, faint };
}

export function rgb(number, dark) {
  if (number < COLORS.length) {
    const color = [1, 3, 5].map((place) => parseInt(COLORS[number].slice(place, place + 2), 16));
    return dark ? color.map((part) => Math.round(part + (255 - part) * 0.3)) : color;
  }
  // Others go around the circle in steps that never meet.
  const [hue, light] = [(number * 137.508) % 360, dark ? 0.66 : 0.42];
  const wave = (shift) => {
    const at = (shift + hue / 30) % 12;
    return Math.round(255 * (light - 0.5 * Math.min(light, 1 - light) * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return [wave(0), wave(8), wave(4)];
}

// Few points are large, many are small.
export function radiusFor(n, ratio) {
  return Math.round(ratio * (n > 200000 ? 0.5 : n > 20000 ? 1 : n > 3000 ? 2 : n > 600 ? 3.5 : 5) - 0.5);
}

function disk(radius, width) {
  const steps = [];
  for (let y = -radius; y <= radius; y += 1) {
    for (let x = -radius; x <= radius; x += 1) if (x * x + y * y <= radius * radius + radius * 0.8) steps.push(y * width + x);
  }
  return Int32Array.from(steps);
}

// Draws all points into the image, and says how many of them are in it. A point steps back where back[row] is 1.
export function drawPoints(image, points, numbers, view, colors, radius, back = null) {
  const pixels = new Uint32Array(image.data.buffer);
  pixels.fill(0);
  if (radius === 0 && back === null) return drawDots(pixels, image.width, image.height, points, numbers, view, colors.full);
  const { width, height } = image;
  const { scale } = view;
  const left = width / 2 - view.x * scale;
  const top = height / 2 + view.y * scale;
  const steps = disk(radius, width);
  const [right, bottom] = [width - radius, height - radius];
  let shown = 0;
  // What steps back lies beneath.
  for (let layer = back ? 0 : 1; layer < 2; layer += 1) {
    const table = layer === 0 ? colors.faint : colors.full;
    for (let row = 0, at = 0; row < numbers.length; row += 1, at += 2) {
      if (back !== null && back[row] !== 1 - layer) continue;
      const x = left + points[at] * scale;
      const y = top - points[at + 1] * scale;
      if (!(x >= radius && x < right && y >= radius && y < bottom)) continue;
      shown += 1;
      const pixel = (y | 0) * width + (x | 0);
      const color = table[numbers[row]];
      for (let step = 0; step < steps.length; step += 1) pixels[pixel + steps[step]] = color;
    }
  }
  return shown;
}

// The same for points of one pixel each: the case of very many, where every step counts.
function drawDots(pixels, width, height, points, numbers, view, table) {
  const scale = view.scale;
  const left = width / 2 - view.x * scale;
  const top = height / 2 + view.y * scale;
  const n = numbers.length;
  let shown = 0;
  for (let row = 0; row < n; row += 1) {
    const x = left + points[2 * row] * scale;
    const y = top - points[2 * row + 1] * scale;
    if (x >= 0 && x < width && y >= 0 && y < height) {
      shown += 1;
      pixels[(y | 0) * width + (x | 0)] = table[numbers[row]];
    }
  }
  return shown;
}

// The place from which all points are seen.
export function wholeView(points, width, height) {
  let left = Infinity;
  let right = -Infinity;
  let low = Infinity;
  let high = -Infinity;
  for (let at = 0; at < points.length; at += 2) {
    const x = points[at];
    const y = points[at + 1];
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < low) low = y;
    if (y > high) high = y;
  }
  if (!(right >= left)) return { x: 0, y: 0, scale: 1 };
  const scale = 0.92 * Math.min(width / (right - left || 1), height / (high - low || 1));
  return { x: (left + right) / 2, y: (low + high) / 2, scale };
}

// Rows of the points inside a line that is drawn around them, in pixels.
export function rowsWithin(line, points, view, width, height) {
  const rows = [];
  for (let row = 0, at = 0; at < points.length; row += 1, at += 2) {
    const x = width / 2 + (points[at] - view.x) * view.scale;
    const y = height / 2 - (points[at + 1] - view.y) * view.scale;
    if (!(x >= 0 && x < width && y >= 0 && y < height)) continue;
    let inside = false;
    for (let one = 0, other = line.length - 1; one < line.length; other = one, one += 1) {
      const [ax, ay] = line[one];
      const [bx, by] = line[other];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
    }
    if (inside) rows.push(row);
  }
  return rows;
}

// The row of the point nearest to a pixel, or −1 where none is within reach.
export function rowAt(px, py, reach, points, view, width, height) {
  const x = view.x + (px - width / 2) / view.scale;
  const y = view.y - (py - height / 2) / view.scale;
  let [best, found] = [(reach / view.scale) ** 2, -1];
  for (let row = 0, at = 0; at < points.length; row += 1, at += 2) {
    const far = (points[at] - x) ** 2 + (points[at + 1] - y) ** 2;
    if (far <= best) [best, found] = [far, row];
  }
  return found;
}
