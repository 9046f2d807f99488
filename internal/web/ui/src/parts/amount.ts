// counted is a number with its noun: 1 host, 2 hosts.
export const counted = (n: number, one: string, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

const units: [number, string][] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

// bytes is a size in the largest unit of which it has one: 16 MiB, 1.5 GiB.
export function bytes(n: number): string {
  const [size, unit] = units.find(([size]) => n >= size) ?? [1, "bytes"];
  return `${Number((n / size).toFixed(1))} ${unit}`;
}
