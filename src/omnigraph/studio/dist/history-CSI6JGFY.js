import{a,b,c}from"./chunk-DL67M2YN.js";import"./chunk-HP22VRNV.js";export{b as History,c as NameDialog,a as layLanes};
