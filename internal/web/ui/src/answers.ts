// What topics answer that the description of the API does not name, or names apart.
import type { Host } from "./api";

export interface Fleet {
  names: string[];
  groups: { channel: string; wave: string; first: number; count: number }[];
  cells: string;
  legend: { code: string; state: string; count: number }[];
}

export interface HostList {
  total: number;
  offset: number;
  hosts: (Host & { state: string })[];
}
