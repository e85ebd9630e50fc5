// Choices from a seed: the same seed, the same choices.
export class Random {
  #state;
  constructor(seed) { this.#state = seed >>> 0; }
  // mulberry32
  next() {
    let t = (this.#state = (this.#state + 0x6d2b79f5) >>> 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  below(n) { return Math.floor(this.next() * n); }
  chance(p) { return this.next() < p; }
  of(list) { return list[this.below(list.length)]; }
  // {name: weight}: a name
  weighed(weights) {
    let left = this.next() * Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    for (const [name, weight] of Object.entries(weights)) if ((left -= weight) < 0) return name;
    return Object.keys(weights)[0];
  }
}
