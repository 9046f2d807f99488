// What plays the simulator is one piece of code, fetched when the first of them is opened.
export { SimulatePage } from "./simulate";
export { WhatIf } from "../parts/whatif";
