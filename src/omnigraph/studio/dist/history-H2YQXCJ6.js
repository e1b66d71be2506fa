import{a,b,c}from"./chunk-BHYKFXHY.js";import"./chunk-5P2E2H3P.js";export{b as History,c as NameDialog,a as layLanes};
